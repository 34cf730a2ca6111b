"""Names of an enclosing function in kernels, which compiled code sees, in Triton's interpreter."""

from pathlib import Path

import pytest

from tests import interpreted

KERNELS = """
import json
import torch
import triton
import triton.language as tl
from workers.backends.interpreter import enclosing_names, written_annotations

if INSTALLED:
    enclosing_names.install()
    written_annotations.install()

def made(value):
    VALUE = tl.constexpr(value)

    @triton.jit
    def scaled(x):
        return x * VALUE

    @triton.jit
    def kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
        at = tl.arange(0, BLOCK)
        tl.store(out_ptr + at, scaled(tl.load(x_ptr + at)) + VALUE)

    return kernel

x, found = torch.arange(4.0), []
try:
    for value in (2.0, 3.0):
        out = torch.zeros(4)
        made(value)[(1,)](x, out, BLOCK=4)
        found.append(out.tolist())
except Exception as error:
    found = str(error)
print(json.dumps(found))
"""


@pytest.mark.parametrize("installed", [True, False])
def test_each_kernel_sees_the_names_of_its_own_call(installed: bool, tmp_path: Path) -> None:
    found = interpreted.answer(tmp_path, KERNELS.replace("INSTALLED", str(installed)))
    if installed:
        assert found == [[2.0, 4.0, 6.0, 8.0], [3.0, 6.0, 9.0, 12.0]]
    else:
        assert "is not defined" in found
