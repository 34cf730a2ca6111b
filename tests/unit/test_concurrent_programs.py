"""Interpreted programs of one launch: their order, what they see of each other, and products."""

from typing import Any

import pytest

from tests import interpreted

KERNELS = """
import json
import numpy as np
import torch
import triton
import triton.language as tl
from workers.backends.interpreter import concurrent_programs, tf32_products

concurrent_programs.TRACKED = 1
concurrent_programs.install()
tf32_products.install()

@triton.jit
def arrivals(out_ptr, count_ptr):
    tl.store(out_ptr + tl.atomic_add(count_ptr, 1), tl.program_id(0) * 4 + tl.program_id(1))

@triton.jit
def carried(out_ptr):
    tl.store(out_ptr, tl.load(out_ptr) + 1)

@triton.jit
def own(out_ptr):
    at = out_ptr + tl.program_id(0)
    tl.store(at, 1)
    tl.store(at, tl.load(at) + 1)

@triton.jit
def arrived_last(out_ptr, parts_ptr, count_ptr):
    tl.store(parts_ptr + tl.program_id(0), 1)
    if tl.atomic_add(count_ptr, 1) == 31:
        tl.store(out_ptr, tl.sum(tl.load(parts_ptr + tl.arange(0, 32))))

@triton.jit
def in_turn(out_ptr, turn_ptr):
    while tl.atomic_add(turn_ptr, 0) < tl.program_id(0):
        pass
    tl.store(out_ptr, tl.load(out_ptr) + 1)
    tl.atomic_add(turn_ptr, 1)

@triton.jit
def product(x_ptr, y_ptr, out_ptr, PRECISION: tl.constexpr):
    i = tl.arange(0, 16)
    at = i[:, None] * 16 + i[None, :]
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    tl.store(out_ptr + at, tl.dot(x, y, input_precision=PRECISION))

def numbers(count):
    return torch.zeros(count, dtype=torch.int32)

found = {}
order, count = numbers(32), numbers(1)
arrivals[(8, 4)](order, count)
found["order"] = order.tolist()
one = numbers(1)
carried[(32,)](one)
found["carried"] = int(one)
each = numbers(32)
own[(32,)](each)
found["own"] = each.tolist()
last = numbers(1)
arrived_last[(32,)](last, numbers(32), numbers(1))
found["last"] = int(last)
turns = numbers(1)
in_turn[(32,)](turns, numbers(1))
found["turns"] = int(turns)
x = torch.randn(16, 16)
cases = (("ieee", x, "ieee"), ("default", x, None), ("exact", x.half().float(), None))
for name, left, precision in cases:
    out = torch.empty(16, 16)
    product[(1,)](left, torch.eye(16), out, PRECISION=precision)
    found[name] = float((out - left).abs().max())
nan = torch.full((16, 16), float("nan"))
product[(1,)](nan, torch.eye(16), out, PRECISION=None)
found["nan"] = bool(out.isnan().all())
print(json.dumps(found))
"""


@pytest.fixture(name="found", scope="module")
def _found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Answers of the kernels, from a process in which Triton interprets."""
    return interpreted.answer(tmp_path_factory.mktemp("programs"), KERNELS)


def test_programs_run_in_a_random_order_each_once(found: Any) -> None:
    assert found["order"] != sorted(found["order"]) == list(range(32))


def test_of_two_that_add_by_load_and_store_one_is_lost(found: Any) -> None:
    assert found["carried"] == 1


def test_a_program_sees_its_own_stores(found: Any) -> None:
    assert found["own"] == [2] * 32


def test_a_program_sees_all_stores_after_an_atomic_operation(found: Any) -> None:
    assert found["last"] == 32


def test_programs_that_wait_for_each_other_run_in_turn(found: Any) -> None:
    assert found["turns"] == 32


def test_products_of_single_precision_are_in_tf32_by_default(found: Any) -> None:
    assert found["ieee"] == 0
    assert 1e-5 < found["default"] < 2e-3
    assert found["exact"] == 0
    assert found["nan"]
