# zoo: problem=diag_matmul backend=triton status=passed verdict=clean findings=- speedup=>1
"""A diagonal matrix times B is B with its rows scaled: N·M products instead of N²·M.  Wins even in the interpreter."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scale_rows(diagonal_ptr, b_ptr, out_ptr, n, m, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    inside = (row < n) & (column < m)
    scale = tl.load(diagonal_ptr + row, mask=row < n, other=0.0)
    b = tl.load(b_ptr + row * m + column, mask=inside)
    tl.store(out_ptr + row * m + column, scale * b, mask=inside)


class ModelNew(nn.Module):
    def forward(self, diagonal, b):
        n, m = b.shape
        out = torch.empty_like(b)
        rows = 2048 if b.device.type == "cpu" else 64  # the interpreter pays per program, a GPU per register
        width = triton.next_power_of_2(m)
        scale_rows[(triton.cdiv(n, rows),)](diagonal, b, out, n, m, ROWS=rows, WIDTH=width, num_warps=8)
        return out
