"""Values of constants in interpreted kernels, as compiled code has them."""

from pathlib import Path

from tests import interpreted

KERNELS = """
import enum
import json
import torch
import triton
import triton.language as tl
from workers.backends.interpreter import constant_values

constant_values.install()
WIDTH = tl.constexpr(8)
ALPHA = tl.constexpr(0.5)

@triton.jit
def least(dtype: tl.constexpr):
    of = dtype.value
    if of.is_floating():
        return float("-inf")
    return -(2 ** (of.int_bitwidth - 1))

@triton.jit
def fill(out_ptr, wide, N: tl.constexpr):
    i = tl.arange(0, WIDTH.value)
    inside = i > 0 and i < N.value
    tl.store(out_ptr + i, least(out_ptr.dtype.element_ty), mask=inside)

@triton.jit
def logistic(x):
    return 2 * tl.sigmoid(2 * x)

@triton.jit
def of_a_constant(x_ptr, out_ptr):
    i = tl.arange(0, WIDTH)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, logistic(ALPHA * (x + 1) - ALPHA) + tl.where(ALPHA < x, 1.0, 0.0))

class Kind(enum.Enum):
    WHOLE = 3
    HALF = 4

TYPES = {Kind.WHOLE: tl.int32, Kind.HALF: tl.float16}

@triton.jit
def of_a_member(out_ptr, KIND: tl.constexpr, MODE: tl.constexpr):
    dtype = TYPES[KIND.value]
    if MODE == tl.constexpr(Kind.HALF.value):
        tl.store(out_ptr, tl.full((), 1.75, tl.float32).to(dtype))

answers = []
for dtype in (torch.float32, torch.int16):
    out = torch.zeros(8, dtype=dtype)
    fill[(1,)](out, 1, N=4)
    answers.append([str(x) for x in out.tolist()])
x, out = torch.arange(8.0), torch.zeros(8)
of_a_constant[(1,)](x, out)
answers.append(torch.allclose(out, 2 * torch.sigmoid(x) + (x > 0.5)))
out = torch.zeros(1)
of_a_member[(1,)](out, KIND=Kind.WHOLE, MODE=Kind.HALF.value)
answers.append(out.item())
print(json.dumps(answers))
"""


def test_constants_and_names_of_constants(tmp_path: Path) -> None:
    floats, integers, operators, member = interpreted.answer(tmp_path, KERNELS)
    assert floats == ["0.0", "-inf", "-inf", "-inf", *["0.0"] * 4]
    assert integers == ["0", "-32768", "-32768", "-32768", *["0"] * 4]
    assert operators, "of a constant and a block, as an argument"
    assert member == 1.0, "a parameter's value is the member, that of a member its number"
