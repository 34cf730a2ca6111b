# zoo: problem=likeness_of_rows backend=triton status=incorrect verdict=clean findings=-
"""Divides by the lengths without the reference's epsilon: a row of zeros has no number.

Stopped by structure: where the reference divides, a few rows of its inputs are zeros."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def reduce(a_ptr, b_ptr, out_ptr, n, m, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, WIDTH)[None, :]
    inside = (row[:, None] < n) & (column < m)
    a = tl.load(a_ptr + row[:, None] * m + column, mask=inside, other=0.0)
    b = tl.load(b_ptr + row[:, None] * m + column, mask=inside, other=0.0)
    found = tl.sum(a * b, 1) * tl.rsqrt(tl.sum(a * a, 1) * tl.sum(b * b, 1))
    tl.store(out_ptr + row, found, mask=row < n)


class ModelNew(nn.Module):
    def forward(self, a, b):
        n, m = a.shape
        out = torch.empty(n, dtype=a.dtype, device=a.device)
        rows = 128 if a.device.type == "cpu" else 4
        reduce[(triton.cdiv(n, rows),)](a, b, out, n, m, ROWS=rows, WIDTH=triton.next_power_of_2(m))
        return out
