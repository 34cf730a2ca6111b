"""Signature of a launch: the same of a kernel that Triton compiles and of one that
its interpreter runs.
"""

import pytest
import torch
import triton.language as tl
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction

from workers.backends import triton as backend


def scale(x, n, stride, BLOCK: tl.constexpr):  # noqa: N803
    """Kernel that is never launched."""


@pytest.mark.parametrize("kind", [JITFunction, InterpretedFunction])
def test_a_one_is_a_constant_unless_the_kernel_says_otherwise(kind: type) -> None:
    kernel = kind(scale, do_not_specialize=["n"])
    found = backend._signature(kernel, (torch.zeros(4), 1, 1), {"BLOCK": 64, "num_warps": 2})
    assert found["signature"] == {
        "x": "*fp32",
        "n": "i32",
        "stride": "constexpr",
        "BLOCK": "constexpr",
    }
    assert found["options"] == {"num_warps": 2}


@pytest.mark.parametrize("kind", [JITFunction, InterpretedFunction])
def test_a_kernel_without_options_has_a_signature(kind: type) -> None:
    found = backend._signature(kind(scale), (torch.zeros(4), 1, 5, 64), {})
    assert found["signature"] == {
        "x": "*fp32",
        "n": "constexpr",
        "stride": "i32",
        "BLOCK": "constexpr",
    }
