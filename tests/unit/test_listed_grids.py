"""Grids of interpreted kernels that are lists, as compiled code takes them."""

from pathlib import Path
from typing import Any

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

def answer(grid):
    out = torch.zeros(4)
    try:
        counted[grid](out, BLOCK=2)
    except Exception as error:
        return str(error)
    return out.int().tolist()

print(json.dumps([answer(grid) for grid in (GRIDS)]))
"""

LISTS = ("[2]", "[2, 1]", "lambda meta: [triton.cdiv(4, meta['BLOCK'])]")
NUMBERS = ("2", "lambda meta: 2")


def answers(folder: Path, grids: tuple[str, ...], *, installed: bool) -> list[Any]:
    source = KERNELS.replace("INSTALLED", str(installed))
    return interpreted.answer(folder, source.replace("GRIDS", ", ".join(grids)))


def test_grids_that_are_lists(tmp_path: Path) -> None:
    *lists, of_a_tuple = answers(tmp_path, (*LISTS, "(2,)"), installed=False)
    assert all("list" in error for error in lists), "Triton's interpreter takes lists by itself"
    assert of_a_tuple == [1, 1, 2, 2]


def test_grids_that_are_lists_once_it_is_installed(tmp_path: Path) -> None:
    found = answers(tmp_path, (*LISTS, "(2,)", *NUMBERS), installed=True)
    assert found[:4] == [[1, 1, 2, 2]] * 4
    assert all("len()" in error for error in found[4:])
