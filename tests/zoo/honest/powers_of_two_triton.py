# zoo: problem=row_softmax backend=triton status=passed verdict=clean findings=- speedup=<1
"""Softmax by powers of two from tl.math, in a file that imports no module of that name; the type that it computes in, and a
helper, are constants of the kernel's."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def power_of_e(x):
    return tl.math.exp2(x * 1.4426950408889634)


@triton.jit
def softmax(x_ptr, out_ptr, rows, columns, step, FORM: tl.constexpr, POWER: tl.constexpr, TILE: tl.constexpr):
    row = tl.program_id(0) * TILE[0] + tl.arange(0, TILE[0])[:, None]
    column = tl.arange(0, TILE[1])[None, :]
    inside = (row < rows) & (column < columns)
    x = tl.load(x_ptr + row * columns + column * step, mask=inside, other=float("-inf")).to(FORM)
    x = tl.where(row < rows, x, 0.0)
    e = POWER(x - tl.max(x, axis=1)[:, None])
    tl.store(out_ptr + row * columns + column, e / tl.sum(e, axis=1)[:, None], mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.empty_like(x)
        tile = (16 if x.device.type == "cpu" else 1, triton.next_power_of_2(columns))
        softmax[(triton.cdiv(rows, tile[0]),)](
            x, out, rows, columns, x.stride(1), FORM=tl.float32, POWER=power_of_e, TILE=tile, num_warps=8
        )
        return out
