"""Grids of interpreted kernels that are lists, as compiled code takes them."""

from pathlib import Path

import pytest

from tests import interpreted

KERNELS = """
import json
import torch
import triton
import triton.language as tl
from workers.backends.interpreter import concurrent_programs, listed_grids

if INSTALLED:
    listed_grids.install()
    concurrent_programs.install()

@triton.jit
def counted(out_ptr, BLOCK: tl.constexpr):
    tl.store(out_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(0) + 1)

out = torch.zeros(4)
try:
    counted[GRID](out, BLOCK=2)
except Exception as error:
    print(json.dumps(str(error)))
else:
    print(json.dumps(out.int().tolist()))
"""


@pytest.mark.parametrize(
    "grid", ["[2]", "[2, 1]", "lambda meta: [triton.cdiv(4, meta['BLOCK'])]", "(2,)"]
)
@pytest.mark.parametrize("installed", [True, False])
def test_grids_that_are_lists(grid: str, installed: bool, tmp_path: Path) -> None:
    source = KERNELS.replace("INSTALLED", str(installed)).replace("GRID", grid)
    found = interpreted.answer(tmp_path, source)
    if installed or grid == "(2,)":
        assert found == [1, 1, 2, 2]
    else:
        assert "list" in found, "Triton's interpreter no longer needs this module"


@pytest.mark.parametrize("grid", ["2", "lambda meta: 2"])
def test_a_number_is_no_grid(grid: str, tmp_path: Path) -> None:
    source = KERNELS.replace("INSTALLED", "True").replace("GRID", grid)
    assert "len()" in interpreted.answer(tmp_path, source)
