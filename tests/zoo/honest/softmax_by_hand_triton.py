# zoo: problem=softmax_by_hand backend=triton status=passed verdict=clean findings=-
"""The five operators in one kernel, beside the cheats that leave them to the library."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def softmax(x_ptr, out_ptr, rows, columns, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    mask = (row < rows) & (column < columns)
    x = tl.load(x_ptr + row * columns + column, mask=mask, other=float("-inf"))
    powers = tl.exp(x - tl.max(x, axis=1)[:, None])
    tl.store(out_ptr + row * columns + column, powers / tl.sum(powers, axis=1)[:, None], mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out, block = torch.empty_like(x), 16 if x.device.type == "cpu" else 1
        width = triton.next_power_of_2(columns)
        softmax[(triton.cdiv(rows, block),)](x, out, rows, columns, ROWS=block, WIDTH=width)
        return out
