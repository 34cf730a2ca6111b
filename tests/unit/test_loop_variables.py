"""Loop variables of interpreted kernels against those of a compiler."""

from typing import Any

import pytest

from tests import interpreted

KERNELS = """
import json
import torch
import triton
import triton.language as tl
from workers.backends.interpreter import loop_variables

loop_variables.install()

@triton.jit
def converted(out_ptr, n):
    for i in range(n):
        tl.store(out_ptr + i.to(tl.int64), i + 1)

@triton.jit
def pipelined(out_ptr, n):
    for i in tl.range(1, n, step=2, num_stages=2):
        tl.store(out_ptr + i, i.to(tl.float32) * 2)

@triton.jit
def nested(out_ptr, n):
    for i in range(2, n):
        for j in range(i, n):
            tl.store(out_ptr + j, (i + j).to(tl.int32))

@triton.jit
def constant(out_ptr, n):
    for i in tl.static_range(3):
        tl.store(out_ptr + tl.arange(0, 2**i), 2**i)

@triton.jit
def sized(out_ptr, n):
    for i in range(n):
        tl.store(out_ptr + i, i.dtype.primitive_bitwidth)
    for i in range(2, n.to(tl.int64)):
        tl.store(out_ptr + i, i.dtype.primitive_bitwidth)

answers = {}
for kernel in (converted, pipelined, nested, constant, sized):
    out = torch.zeros(4)
    kernel[(1,)](out, 4)
    answers[kernel.fn.__name__] = out.int().tolist()
print(json.dumps(answers))
"""


@pytest.fixture(name="answers", scope="module")
def _answers(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Outputs of the kernels, from a process in which Triton interprets."""
    return interpreted.answer(tmp_path_factory.mktemp("loops"), KERNELS)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("converted", [1, 2, 3, 4]),
        ("pipelined", [0, 2, 0, 6]),
        ("nested", [0, 0, 4, 6]),
        ("constant", [4, 4, 4, 4]),
        ("sized", [32, 32, 64, 64]),
    ],
)
def test_a_loop_variable_is_a_scalar(answers: Any, kernel: str, expected: list[int]) -> None:
    assert answers[kernel] == expected
