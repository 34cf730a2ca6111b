"""Floats that numpy lacks (bf16, and floats of one byte) in Triton's interpreter.

The interpreter represents them as unsigned integers and computes with the integers: products,
comparisons and dots of bf16 are wrong.  Its conversions lose the carry of a rounded significand
(127.8 becomes 64 in e4m3) and do not round to bf16 at all.  Here operands are widened to fp32 and
results rounded to nearest, as in compiled code, or towards zero where a kernel asks for that;
floats of one byte saturate at their largest number. numpy computes all of it, because torch's
operators would count as the library's work (workers/backends/recording/library_work.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter

TYPES = {
    "bf16": torch.bfloat16,
    "fp8e4nv": torch.float8_e4m3fn,
    "fp8e5": torch.float8_e5m2,
    "fp8e4b8": torch.float8_e4m3fnuz,
    "fp8e5b16": torch.float8_e5m2fnuz,
}
"""torch's types by Triton's names."""

_ON_BITS = frozenset(
    {np.where, np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.left_shift, np.right_shift}
)
"""Operations of the interpreter that are right on the integer representation of any type."""


def is_narrow(dtype: Any) -> bool:
    """Test whether numpy lacks the element type of a Triton type."""
    return getattr(dtype.scalar, "name", "") in TYPES


class _OneByteFloat:
    """Values of a one-byte float by code; the lower half of the codes is positive and ascends."""

    def __init__(self, kind: torch.dtype) -> None:
        self.numbers = torch.arange(256, dtype=torch.uint8).view(kind).float().numpy()
        rising = self.numbers[:128]
        self._finite = rising[np.isfinite(rising)]
        self._halfway = (self._finite[1:] + self._finite[:-1]) / 2
        self._nan = np.flatnonzero(np.isnan(self.numbers))[0]
        self._has_negative_zero = not np.isnan(self.numbers[128])

    def codes(self, numbers: Any, *, to_zero: bool = False) -> Any:
        """Codes of the nearest values, ties to the even code; or of the next ones towards zero."""
        sizes = np.abs(numbers)
        if to_zero:
            codes = np.searchsorted(self._finite, sizes, side="right") - 1
        else:
            codes = np.searchsorted(self._halfway, sizes)
            tied = self._halfway[np.minimum(codes, self._halfway.size - 1)] == sizes
            codes += tied & (codes % 2 == 1)
        negative = np.signbit(numbers) & (self._has_negative_zero | (codes > 0))
        return np.where(np.isnan(numbers), self._nan, codes | (negative * 128)).astype(np.uint8)


_OF_A_BYTE = {name: _OneByteFloat(kind) for name, kind in TYPES.items() if kind.itemsize == 1}


def widened(data: Any, dtype: Any) -> Any:
    """Values in fp32 of the integers that represent them in the interpreter."""
    if table := _OF_A_BYTE.get(dtype.scalar.name):
        return table.numbers[data.view(np.uint8)]
    return (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def rounded(data: Any, dtype: Any, *, to_zero: bool = False) -> Any:
    """Integers that represent the values, rounded to the nearest of a narrow type, or to zero."""
    numbers = np.array(data, dtype=np.float32)
    if table := _OF_A_BYTE.get(dtype.scalar.name):
        return table.codes(numbers, to_zero=to_zero)
    bits = numbers.view(np.uint32)
    rounding = np.uint32(0) if to_zero else (bits >> 16 & 1) + np.uint32(0x7FFF)
    return np.where(np.isnan(numbers), 0x7FC0, bits + rounding >> 16).astype(np.uint16)


def install() -> None:
    """Make the interpreter's operations widen and round these types."""
    builder: Any = interpreter.InterpreterBuilder
    for name in ("binary_op", "ternary_op", "unary_op"):
        setattr(builder, name, _by_function(getattr(builder, name)))
    for name in ("create_fma", "create_erf", "create_rsqrt", "create_dot"):
        setattr(builder, name, _by_operands(getattr(builder, name)))
    for name in ("cast_impl", "create_fp_to_fp"):
        setattr(builder, name, _converted(getattr(builder, name)))
    builder.get_bf16 = _constant
    reductions: Any = interpreter.ReduceOps
    reductions.sum = _summed(reductions.sum)


def _constant(_builder: Any, value: float) -> Any:
    return interpreter.TensorHandle(rounded(np.array([value]), tl.bfloat16), tl.bfloat16)


def _by_function(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrapper of an operation with, as its last argument, the numpy function of its operands."""
    wide = _by_operands(original)

    def run(builder: Any, *arguments: Any) -> Any:
        return (original if arguments[-1] in _ON_BITS else wide)(builder, *arguments)

    return run


def _by_operands(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrapper of an operation with a result of the type of its last tensor handle."""

    def run(builder: Any, *arguments: Any) -> Any:
        handles = [each for each in arguments if isinstance(each, interpreter.TensorHandle)]
        if not any(is_narrow(each.dtype) for each in handles):
            return original(builder, *arguments)
        result = original(builder, *map(_wide, arguments))
        kind = handles[-1].dtype.scalar
        if result.data.dtype == np.bool_:
            return interpreter.TensorHandle(result.data, tl.int1)
        data = rounded(result.data, kind) if is_narrow(kind) else result.data
        return interpreter.TensorHandle(data, kind)

    return run


def _wide(argument: Any) -> Any:
    if isinstance(argument, interpreter.TensorHandle) and is_narrow(argument.dtype):
        return interpreter.TensorHandle(widened(argument.data, argument.dtype), tl.float32)
    return argument


def _converted(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrapper of a conversion, to the nearest number or towards zero."""

    def run(builder: Any, source: Any, kind: Any, rounding: Any = None) -> Any:
        if rounding == interpreter._ir.ROUNDING_MODE.RTZ:
            return _cut_off(_wide(source), kind.scalar)
        if not is_narrow(source.dtype) and not is_narrow(kind):
            return original(builder, source, kind, *([] if rounding is None else [rounding]))
        wide = _wide(source)
        if is_narrow(kind):
            return interpreter.TensorHandle(rounded(wide.data, kind), kind.scalar)
        return builder.cast_impl(wide, kind)

    return run


def _cut_off(wide: Any, kind: Any) -> Any:
    """Values of a narrower type, each the next one towards zero."""
    if is_narrow(kind):
        return interpreter.TensorHandle(rounded(wide.data, kind, to_zero=True), kind)
    nearest = wide.data.astype(np.float16 if kind == tl.float16 else np.float32)
    is_beyond = np.abs(nearest) > np.abs(wide.data)
    next_one = np.nextafter(nearest, nearest.dtype.type(0))
    return interpreter.TensorHandle(np.where(is_beyond, next_one, nearest), kind)


def _summed(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrapper of a sum along an axis, or of all elements.  Halves are added to each other, and each
    sum is rounded, as in a kernel that is compiled; its order of additions is another one.
    """

    def run(reduction: Any, block: Any) -> Any:
        if not is_narrow(block.dtype):
            return original(reduction, block)
        numbers = widened(block.handle.data, block.dtype)
        axis, shape = reduction.axis, list(numbers.shape)
        if axis is None:
            numbers, kept = numbers.reshape(-1), [1] * len(shape)
        else:
            numbers, kept = np.moveaxis(numbers, axis, 0), [*shape[:axis], 1, *shape[axis + 1 :]]
        while (count := len(numbers)) > 1:
            sums = numbers[: count // 2] + numbers[count // 2 :]
            numbers = widened(rounded(sums, block.dtype), block.dtype)
        codes = rounded(numbers[0], block.dtype)
        return reduction.to_tensor(
            codes.reshape(kept) if reduction.keep_dims else codes, block.dtype
        )

    return run
