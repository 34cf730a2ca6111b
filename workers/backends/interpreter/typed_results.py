"""Types of results in Triton's interpreter, as in compiled code.

* A comparison gives bits.  The interpreter gives its result the type of the operands, so that a
  scalar one that is made a block (`mask & (batch < count)`, `tl.broadcast_to(x != x, shape)`) has
  floats or integers where bits are due.
* All bits of an unsigned number (`~x`) are its largest value, which the interpreter gives as −1 and
  numpy refuses.
* A sum of integers wraps around.  The interpreter makes it in 64 bits, and numpy refuses a single
  one that does not fit in the type.
* An address that is passed as an integer (`x.data_ptr()`) is one of 64 bits in a kernel, whatever
  its value.  The interpreter passes a small one in 32 bits, which are no pointer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter


def install() -> None:
    """Give these results their types in the interpreter."""
    builder: Any = interpreter.InterpreterBuilder
    builder.create_int_to_ptr = _address
    compute, all_ones = builder.binary_op, builder.get_all_ones_value

    def computing(self: Any, *operands: Any) -> Any:
        found = compute(self, *operands)
        is_bits = found.data.dtype == np.bool_
        return interpreter.TensorHandle(found.data, tl.int1) if is_bits else found

    def largest(self: Any, kind: Any) -> Any:
        dtype = interpreter._get_np_dtype(kind)
        if not np.issubdtype(dtype, np.unsignedinteger):
            return all_ones(self, kind)
        return interpreter.TensorHandle(np.full(1, np.iinfo(dtype).max, dtype), kind.scalar)

    builder.binary_op, builder.get_all_ones_value = computing, largest
    reductions: Any = interpreter.ReduceScanOpInterface
    pack = reductions.to_tensor

    def wrapping(self: Any, found: Any, dtype: Any) -> Any:
        return pack(self, np.asarray(found).astype(interpreter._get_np_dtype(dtype)), dtype)

    reductions.to_tensor = wrapping


def _address(_builder: Any, number: Any, kind: Any) -> Any:
    return interpreter.TensorHandle(number.data.astype(np.uint64), kind.scalar)
