"""Reductions and scans by a function of the kernel in Triton's interpreter, on whole blocks.

The interpreter applies such a function (an exclusive or, as in `tl.flip` and `tl.sort`; pairs;
a recurrence) to one element at a time, which takes 0.5 to 1 ms: 2 s for a flip of 4,096 elements.
Here it is applied to blocks, log2(n) times for an axis of n elements, as compiled kernels do: the
function has to be associative in either.  A function that branches on its arguments, or returns
another type, is left to the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

Parts = list[Any]
"""Elements of each operand, as numpy has them, with the reduced or scanned axis in front."""


class _BranchError(Exception):
    """The function branches on its arguments, or returns another type: not one of blocks."""


def install() -> None:
    """Make the interpreter reduce and scan blocks."""
    reduces: Any = interpreter.ReduceOps
    reduces.generic_reduce = _or_by_element(_reduced, reduces.generic_reduce)
    scans: Any = interpreter.ScanOps
    scans.generic_scan = _or_by_element(_scanned, scans.generic_scan)


def _or_by_element(
    on_blocks: Callable[..., Any], by_element: Callable[..., Any]
) -> Callable[..., Any]:
    def run(operation: Any, blocks: Any) -> Any:
        try:
            with _without_branches():
                return on_blocks(operation, blocks)
        except _BranchError:
            return by_element(operation, blocks)

    return run


@contextmanager
def _without_branches() -> Iterator[None]:
    """Raise _BranchError where the truth value of more than one element is asked for, which the
    interpreter takes to be true.
    """
    block: Any = tl.core.tensor
    original = block.__bool__

    def of_one(value: Any) -> bool:
        if value.handle.data.size > 1:
            raise _BranchError
        return bool(original(value))

    block.__bool__ = of_one
    try:
        yield
    finally:
        block.__bool__ = original


def _reduced(operation: Any, blocks: Any) -> list[Any]:
    """One block for each operand, of which neighbours are combined until one is left."""
    axis, shape = operation.axis, list(blocks[0].handle.data.shape)
    if axis is None:
        parts = [each.handle.data.reshape(-1) for each in blocks]
        kept = [1] * len(shape)
    else:
        parts = [np.moveaxis(each.handle.data, axis, 0) for each in blocks]
        kept = [*shape[:axis], 1, *shape[axis + 1 :]]
    while len(parts[0]) > 1:
        parts = _combined(
            operation, blocks, [each[0::2] for each in parts], [each[1::2] for each in parts]
        )
    found = [each[0] for each in parts]
    if operation.keep_dims:
        found = [each.reshape(kept) for each in found]
    return [
        operation.to_tensor(each, block.dtype) for each, block in zip(found, blocks, strict=True)
    ]


def _scanned(operation: Any, blocks: Any) -> list[Any]:
    """One block for each operand: every element has been combined with all before it."""
    axis = operation.axis % blocks[0].handle.data.ndim
    parts = [np.moveaxis(each.handle.data, axis, 0) for each in blocks]
    step, count = 1, len(parts[0])
    while step < count:
        earlier = [np.roll(each, step, axis=0) for each in parts]
        later = _combined(operation, blocks, earlier, parts)
        parts = [
            np.concatenate([each[:step], new[step:]])
            for each, new in zip(parts, later, strict=True)
        ]
        step *= 2
    return [
        operation.to_tensor(np.moveaxis(each, 0, axis), block.dtype)
        for each, block in zip(parts, blocks, strict=True)
    ]


def _combined(operation: Any, blocks: Any, first: Parts, second: Parts) -> Parts:
    """The function's results, one per operand.  Raises _BranchError for results of another type."""
    operands = [
        operation.to_tensor(np.ascontiguousarray(each), block.dtype)
        for side in (first, second)
        for each, block in zip(side, blocks, strict=True)
    ]
    found = operation.combine_fn.fn(*operands)
    results = found if isinstance(found, tuple) else (found,)
    for result, block in zip(results, blocks, strict=True):
        if not isinstance(result, tl.core.tensor) or result.dtype != block.dtype:
            raise _BranchError
    shape = first[0].shape
    return [np.broadcast_to(each.handle.data, shape) for each in results]
