"""Products of fp32 in Triton's interpreter are in TF32, as on a GPU, unless `input_precision` is
given.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl
from triton._C.libtriton import ir
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from workers.protocol.roundoff import TF32_DROPPED_BITS


def install() -> None:
    """Round the factors of `tl.dot`."""
    builder: Any = InterpreterBuilder
    product = builder.create_dot

    def rounding(self: Any, a: Any, b: Any, d: Any, precision: Any, *args: Any) -> Any:
        if precision == ir.INPUT_PRECISION.TF32:
            a, b = in_tf32(a), in_tf32(b)
        return product(self, a, b, d, precision, *args)

    builder.create_dot = rounding


def in_tf32(block: Any) -> Any:
    """The block rounded to TF32, with ten bits of significand."""
    if block.data.dtype != np.float32:
        return block
    bits = np.ascontiguousarray(block.data).view(np.uint32)
    half = np.uint32(1 << (TF32_DROPPED_BITS - 1))
    mask = np.uint32(0xFFFFFFFF << TF32_DROPPED_BITS & 0xFFFFFFFF)
    rounded = np.where(np.isfinite(block.data), (bits + half) & mask, bits).view(np.float32)
    return TensorHandle(rounded, tl.float32)
