# zoo: problem=mean_pool backend=triton status=passed verdict=clean findings=-
"""Whichever program arrives last, by an atomic count, adds up the parts of all."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def mean(x_ptr, parts_ptr, count_ptr, out_ptr, columns, ROWS: tl.constexpr, PART: tl.constexpr, PARTS: tl.constexpr):
    program, row = tl.program_id(0), tl.arange(0, ROWS)
    column = program * PART + tl.arange(0, PART)
    x = tl.load(x_ptr + row[:, None] * columns + column[None, :])
    tl.store(parts_ptr + program * ROWS + row, tl.sum(x, axis=1))
    tl.debug_barrier()
    if tl.atomic_add(count_ptr, 1) == PARTS - 1:
        each = tl.arange(0, PARTS)[:, None]
        tl.store(out_ptr + row, tl.sum(tl.load(parts_ptr + each * ROWS + row[None, :]), axis=0) / columns)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        parts = torch.empty(4, rows, device=x.device)
        count = torch.zeros(1, dtype=torch.int32, device=x.device)
        out = torch.empty(rows, dtype=x.dtype, device=x.device)
        mean[(4,)](x, parts, count, out, columns, ROWS=rows, PART=columns // 4, PARTS=4)
        return out
