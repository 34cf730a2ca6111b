"""Boolean operators of interpreted kernels against those of a compiler."""

from typing import Any

import pytest

from tests import interpreted

KERNELS = """
import json
import torch
import triton
import triton.language as tl
from workers.backends.interpreter import block_logic

block_logic.install()

@triton.jit
def first(out_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    inside = i > 0 and i < n
    tl.store(out_ptr + i, tl.where(inside, 1.0, 0.0))

@triton.jit
def second(out_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    if n > 3 and (N == 8 or n == 0):
        tl.store(out_ptr + i, tl.where(not (i == 2 or i == 5), 1.0, 0.0))

@triton.jit
def third(out_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    chosen = N == 8 and i < n
    tl.store(out_ptr + i, tl.where(n < 0 or chosen and not i == 0, 1.0, 0.0))

answers = []
for kernel in (first, second, third):
    out = torch.zeros(8)
    kernel[(1,)](out, 4, N=8)
    answers.append(out.int().tolist())
print(json.dumps(answers))
"""


@pytest.fixture(name="answers", scope="module")
def _answers(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Outputs of the kernels, from a process in which Triton interprets."""
    return interpreted.answer(tmp_path_factory.mktemp("logic"), KERNELS)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [(0, [0, 1, 1, 1, 0, 0, 0, 0]), (1, [1, 1, 0, 1, 1, 0, 1, 1]), (2, [0, 1, 1, 1, 0, 0, 0, 0])],
    ids=["assigned", "of numbers, and nested", "of both"],
)
def test_blocks_are_joined_element_by_element(
    answers: Any, kernel: int, expected: list[int]
) -> None:
    assert answers[kernel] == expected
