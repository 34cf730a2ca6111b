# zoo: problem=row_softmax backend=triton status=passed verdict=clean findings=- speedup=<1
"""Joins masks by `and`, `or` and `not`, which a compiler does element by element; its grid asks the launch's arguments."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def softmax(x_ptr, out_ptr, rows, columns, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    inside = row < rows and column < columns
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=float("-inf"))
    x = tl.where(row >= rows or not inside, -1e30, x)
    e = tl.exp(x - tl.max(x, axis=1)[:, None])
    tl.store(out_ptr + row * columns + column, e / tl.sum(e, axis=1)[:, None], mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.empty_like(x)
        softmax[lambda meta: (triton.cdiv(meta["rows"], meta["ROWS"]),)](
            x, out, rows, columns, ROWS=64 if x.device.type == "cpu" else 1, WIDTH=triton.next_power_of_2(columns), num_warps=8
        )
        return out
