"""Annotations of interpreted kernels that are text, as compiled code takes them."""

from pathlib import Path

import pytest

from tests import interpreted

KERNELS = """
import json
import torch
import triton
import triton.language as tl
from workers.backends.interpreter import written_annotations

if INSTALLED:
    written_annotations.install()

@triton.jit
def told(out_ptr, n: "i32", N: "tl.constexpr", value: tl.constexpr = 2):
    tl.store(out_ptr + tl.arange(0, N), value, mask=tl.arange(0, N) < n)

out = torch.zeros(4)
try:
    told[(1,)](out, 3, 4)
except Exception as error:
    print(json.dumps(str(error)))
else:
    print(json.dumps(out.int().tolist()))
"""


@pytest.mark.parametrize("installed", [True, False])
@pytest.mark.parametrize("postponed", [True, False])
def test_constants_that_are_named_by_text(installed: bool, postponed: bool, tmp_path: Path) -> None:
    source = KERNELS.replace("INSTALLED", str(installed))
    if postponed:
        source = "from __future__ import annotations\n" + source.replace(
            '"tl.constexpr"', "tl.constexpr"
        )
    found = interpreted.answer(tmp_path, source)
    if installed or postponed:
        assert found == [2, 2, 2, 0]
    else:
        assert "constexpr" in found, "Triton's interpreter no longer needs this module"
