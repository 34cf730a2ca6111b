# zoo: problem=transposed_scale backend=triton status=passed verdict=clean findings=- speedup=<1
"""Reads through the input's strides, so a transposed view needs no copy."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scale_rows(
    x_ptr, scale_ptr, out_ptr, rows, columns, stride_row, stride_column, ROWS: tl.constexpr, WIDTH: tl.constexpr
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    inside = (row < rows) & (column < columns)
    x = tl.load(x_ptr + row * stride_row + column * stride_column, mask=inside)
    scale = tl.load(scale_ptr + row, mask=row < rows, other=0.0)
    tl.store(out_ptr + row * columns + column, x * scale, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x, scale):
        rows, columns = x.shape
        out = torch.empty((rows, columns), dtype=x.dtype, device=x.device)
        per_program = 64 if x.device.type == "cpu" else 4  # the interpreter pays per program
        scale_rows[(triton.cdiv(rows, per_program),)](
            x,
            scale,
            out,
            rows,
            columns,
            x.stride(0),
            x.stride(1),
            ROWS=per_program,
            WIDTH=triton.next_power_of_2(columns),
            num_warps=8,
        )
        return out
