"""Reductions and scans by functions of an interpreted kernel, on blocks and by element."""

from typing import Any

import pytest

from tests import interpreted

KERNELS = """
import json
import time
import torch
import triton
import triton.language as tl
from workers.backends.interpreter import reductions

@triton.jit
def line(a, b, c, d):
    return a * c, b * c + d

@triton.jit
def larger(a, b):
    if a > b:
        found = a
    else:
        found = b
    return found

@triton.jit
def product(a, b):
    return a * b

@triton.jit
def flips(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, DIM: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out_ptr + at, tl.flip(tl.load(x_ptr + at), DIM))

@triton.jit
def sorts(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, tl.sort(tl.load(x_ptr + at)))

@triton.jit
def scans(f_ptr, x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, REVERSE: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    f, x = tl.load(f_ptr + at), tl.load(x_ptr + at)
    tl.store(out_ptr + at, tl.associative_scan((f, x), 1, line, reverse=REVERSE)[1])

@triton.jit
def reduces(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    tl.store(out_ptr, tl.reduce(x, None, product))
    tl.store(out_ptr + 1 + tl.arange(0, N), tl.reduce(x, 0, product))
    kept = tl.reduce(x, 1, product, keep_dims=True)
    tl.store(out_ptr + 1 + N + tl.arange(0, M)[:, None], kept)
    tl.store(out_ptr + 1 + N + M + tl.arange(0, N), tl.reduce(x, 0, larger))

def recurrence(f, x):
    state, out = torch.zeros(x.shape[0]), []
    for step in range(x.shape[1]):
        state = f[:, step] * state + x[:, step]
        out.append(state)
    return torch.stack(out, 1)

def flipped():
    large, out, began = torch.rand(32, 128), torch.empty(32, 128), time.process_time()
    flips[(1,)](large, out, 32, 128, 1)
    return time.process_time() - began

by_element = flipped()
reductions.install()
found = {"faster": flipped() < by_element / 5}
x, f = torch.rand(8, 16) + 0.5, torch.rand(8, 16)
out = torch.empty(8, 16)
for dim in (0, 1):
    flips[(1,)](x, out, 8, 16, dim)
    found[f"flip {dim}"] = torch.equal(out, x.flip(dim))
long, ordered = torch.randn(512), torch.empty(512)
sorts[(1,)](long, ordered, 512)
found["sort"] = torch.equal(ordered, long.sort().values)
scans[(1,)](f, x, out, 8, 16, False)
found["scan"] = torch.allclose(out, recurrence(f, x))
scans[(1,)](f, x, out, 8, 16, True)
found["reverse scan"] = torch.allclose(out, recurrence(f.flip(1), x.flip(1)).flip(1))
parts = torch.empty(1 + 16 + 8 + 16)
reduces[(1,)](x, parts, 8, 16)
expected = torch.cat([x.prod()[None], x.prod(0), x.prod(1), x.amax(0)])
found["products, and a branch"] = torch.allclose(parts, expected, rtol=1e-4)
print(json.dumps(found))
"""

CASES = (
    "flip 0",
    "flip 1",
    "sort",
    "scan",
    "reverse scan",
    "products, and a branch",
    "faster",
)


@pytest.fixture(name="found", scope="module")
def _found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Findings of a process in which Triton interprets."""
    return interpreted.answer(tmp_path_factory.mktemp("reductions"), KERNELS)


@pytest.mark.parametrize("case", CASES)
def test_functions_of_a_kernel_reduce_and_scan_blocks(found: Any, case: str) -> None:
    assert found[case]
