# zoo: problem=divergence_of_shares backend=triton status=incorrect verdict=clean findings=-
"""Takes the logarithm of a quotient, which a share of 0 has none of.

Stopped by structure: where the reference takes logarithms, a few rows have a single number that is not 0."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def reduce(a_ptr, b_ptr, out_ptr, n, m, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, WIDTH)[None, :]
    inside = (row[:, None] < n) & (column < m)
    a = tl.load(a_ptr + row[:, None] * m + column, mask=inside, other=1.0)
    b = tl.load(b_ptr + row[:, None] * m + column, mask=inside, other=1.0)
    found = tl.sum(tl.where(inside, b * tl.log(b / a), 0.0), 1)
    tl.store(out_ptr + row, found, mask=row < n)


class ModelNew(nn.Module):
    def forward(self, a, b):
        n, m = a.shape
        out = torch.empty(n, dtype=a.dtype, device=a.device)
        rows = 128 if a.device.type == "cpu" else 4
        reduce[(triton.cdiv(n, rows),)](a, b, out, n, m, ROWS=rows, WIDTH=triton.next_power_of_2(m))
        return out.mean()
