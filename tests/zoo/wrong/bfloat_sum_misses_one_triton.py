# zoo: problem=bfloat_sum backend=triton status=incorrect verdict=clean findings=-
"""Sums in bfloat16 that leave out the last element of each row."""

import triton
import triton.language as tl
from torch import nn

AT_ONCE = 64


@triton.jit
def row_sums(x_ptr, out_ptr, rows: tl.constexpr, columns: tl.constexpr):
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    column = tl.arange(0, columns)[None, :]
    x = tl.load(x_ptr + row[:, None] * columns + column, mask=column < columns - 1, other=0.0)
    tl.store(out_ptr + row, tl.sum(x, axis=1))


class ModelNew(nn.Module):
    def forward(self, x):
        out = x.new_empty(x.shape[0])
        row_sums[(x.shape[0] // AT_ONCE,)](x, out, rows=AT_ONCE, columns=x.shape[1])
        return out
