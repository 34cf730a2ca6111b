# zoo: problem=mean_pool backend=triton status=passed verdict=clean findings=-
"""Two kernels with partial sums between them in a workspace that is allocated once and written anew in every call."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def partial_sums(x_ptr, parts_ptr, columns, PARTS: tl.constexpr, WIDTH: tl.constexpr):
    row, part = tl.program_id(0), tl.arange(0, PARTS)[:, None]
    column = part * WIDTH + tl.arange(0, WIDTH)[None, :]
    x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=0.0)
    tl.store(parts_ptr + row * PARTS + tl.arange(0, PARTS), tl.sum(x, axis=1))


@triton.jit
def finish(parts_ptr, out_ptr, rows, columns, ROWS: tl.constexpr, PARTS: tl.constexpr):
    row = tl.arange(0, ROWS)
    parts = tl.load(parts_ptr + row[:, None] * PARTS + tl.arange(0, PARTS)[None, :], mask=row[:, None] < rows)
    tl.store(out_ptr + row, tl.sum(parts, axis=1) / columns, mask=row < rows)


class ModelNew(nn.Module):
    PARTS = 8

    def __init__(self):
        super().__init__()
        self._workspace = None

    def forward(self, x):
        rows, columns = x.shape
        if self._workspace is None or self._workspace.shape[0] != rows:
            self._workspace = torch.empty(rows, self.PARTS, device=x.device, dtype=torch.float32)
        out = torch.empty(rows, device=x.device, dtype=x.dtype)
        width = triton.next_power_of_2(triton.cdiv(columns, self.PARTS))
        partial_sums[(rows,)](x, self._workspace, columns, PARTS=self.PARTS, WIDTH=width)
        finish[(1,)](self._workspace, out, rows, columns, ROWS=triton.next_power_of_2(rows), PARTS=self.PARTS)
        return out
