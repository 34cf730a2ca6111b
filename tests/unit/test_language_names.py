"""Names and numbers that compiled Triton takes and its interpreter does not: in a process
of its own, which is told at the start that kernels are interpreted.
"""

import json
import subprocess
import sys

KERNELS = """
import json, os, sys
os.environ["TRITON_INTERPRET"] = "1"
import torch, triton, triton.language as tl
from triton.language import load, store
from workers.backends import triton as backend
from workers.backends.interpreter import language_names, libdevice
from importlib.util import find_spec, module_from_spec
copied = module_from_spec(find_spec("triton.language.extra.libdevice"))
copied.__spec__.loader.exec_module(copied)
rsqrt = copied.rsqrt
libdevice.install()
before = (load, store)
language_names.install()
backend._convert_scalars()
cast = tl.cast

@triton.jit
def scaled(x, out, doubled, n: tl.constexpr):
    at = tl.arange(0, n)
    value = cast(load(x + at), tl.float32)
    if doubled:
        value = value * 2.0
    store(out + at, value)

@triton.jit
def inverse_roots(x, out, n: tl.constexpr):
    at = tl.arange(0, n)
    tl.store(out + at, rsqrt(tl.load(x + at)))

@triton.jit
def through_methods(x, out, n: tl.constexpr):
    at = tl.arange(0, n)
    value = tl.load(x + at)
    value = value.sqrt().log2().exp2().floor() + value.exp().log() - value.sum(0) / n
    tl.store(out + at, value)

found = {}
for doubled in (False, True):
    out = torch.empty(8)
    scaled[(1,)](torch.arange(8), out, doubled, 8)
    found[str(doubled)] = out.tolist()
out = torch.empty(4)
inverse_roots[(1,)](torch.tensor([1.0, 4.0, 16.0, 64.0]), out, 4)
found["roots"] = out.tolist()
through_methods[(1,)](torch.tensor([1.0, 4.0, 16.0, 64.0]), out, 4)
found["methods"] = [round(value, 3) for value in out.tolist()]
found["restored"] = (load, store) == before and cast is tl.cast and rsqrt is copied.rsqrt
json.dump(found, sys.stdout)
"""


def test_names_of_the_language_and_bools(tmp_path):
    """Functions of the language by own names work in a kernel, as does a bool argument, and the
    module has its own names back after a launch.
    """
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)
    ended = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert found["False"] == [float(i) for i in range(8)]
    assert found["True"] == [2.0 * i for i in range(8)]
    assert found["roots"] == [1.0, 0.5, 0.25, 0.125], "by a copy of libdevice's module"
    assert found["methods"] == [-19.25, -15.25, -1.25, 50.75], "functions as methods of a block"
    assert found["restored"]
