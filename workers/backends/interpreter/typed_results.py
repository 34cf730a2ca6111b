"""Types of results in Triton's interpreter, as in compiled code.

* A comparison gives bits.  The interpreter gives its result the type of the operands, so that a
  scalar one that is made a block (`mask & (batch < count)`, `tl.broadcast_to(x != x, shape)`) has
  floats or integers where bits are due.
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
    compute = builder.binary_op

    def computing(self: Any, *operands: Any) -> Any:
        found = compute(self, *operands)
        is_bits = found.data.dtype == np.bool_
        return interpreter.TensorHandle(found.data, tl.int1) if is_bits else found

    builder.binary_op = computing


def _address(_builder: Any, number: Any, kind: Any) -> Any:
    return interpreter.TensorHandle(number.data.astype(np.uint64), kind.scalar)
