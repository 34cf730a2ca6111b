"""Types of comparisons, inverted numbers, sums and addresses in Triton's interpreter."""

import json
import subprocess
import sys
from pathlib import Path

KERNELS = """
import torch
import triton
import triton.language as tl


@triton.jit
def compare(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    first = tl.load(x_ptr)
    is_number = tl.broadcast_to(first != first, (BLOCK,))
    mask = (at < count) & (count < 100)
    tl.store(out_ptr + at, tl.where(~is_number, at, -1), mask=mask)


@triton.jit
def invert(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, (~tl.load(x_ptr + at).to(tl.uint32)).to(tl.int64))


@triton.jit
def fill(address, BLOCK: tl.constexpr):
    tl.store(address.to(tl.pointer_type(tl.float32)) + tl.arange(0, BLOCK), 2.0)


@triton.jit
def add_up(x_ptr, out_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.store(out_ptr, tl.sum(x))
    tl.store(out_ptr + 1 + tl.arange(0, BLOCK), tl.cumsum(x))


def compared():
    out = torch.zeros(4, dtype=torch.int64)
    compare[(2,)](torch.ones(4), out, 3, BLOCK=4)
    return out.tolist()


def inverted():
    out = torch.zeros(4, dtype=torch.int64)
    invert[(1,)](torch.arange(4), out, BLOCK=4)
    return out.tolist()


def filled():
    out = torch.zeros(4)
    fill[(1,)](out.data_ptr(), BLOCK=4)
    return out.tolist()


def added_up():
    out = torch.zeros(5, dtype=torch.int64)
    add_up[(1,)](torch.full((4,), 2**30, dtype=torch.int32), out, BLOCK=4)
    return out.tolist()
"""
RUN = """
import json, sys
from pathlib import Path
from workers.backends.interpreter import concurrent_programs
from workers.backends.recording.recorder import Recorder
from workers.backends.triton import TritonBackend
concurrent_programs.TRACKED = 1.0
module = TritonBackend().build(Path(sys.argv[1]), Recorder())
print(json.dumps([module.compared(), module.inverted(), module.filled(), module.added_up()]))
"""


def test_results_have_the_types_of_compiled_code(tmp_path: Path) -> None:
    path = tmp_path / "source.py"
    path.write_text(KERNELS)
    ran = subprocess.run(
        [sys.executable, "-c", RUN, str(path)],
        capture_output=True,
        text=True,
        check=True,
        env={"TRITON_INTERPRET": "1", "PATH": "/usr/bin:/bin"},
        cwd=Path(__file__).parents[2],
    )
    assert json.loads(ran.stdout) == [
        [0, 1, 2, 0],
        [2**32 - 1 - number for number in range(4)],
        [2.0] * 4,
        [0, 2**30, -(2**31), -(2**30), 0],
    ]
