# zoo: problem=table_of_angles backend=triton status=passed verdict=clean findings=-
"""The table in one kernel.  Its problem has no inputs, and a table that is kept would be right: so it says, and no more."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def table_kernel(rates_ptr, out_ptr, length, half, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    inside = (row < length) & (column < half)
    angles = row * tl.load(rates_ptr + column, mask=column < half, other=0.0)
    at = out_ptr + row * 2 * half + column
    tl.store(at, tl.sin(angles), mask=inside)
    tl.store(at + half, tl.cos(angles), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        self.length = length
        self.rates = nn.Parameter(10_000.0 ** (-torch.arange(0, width, 2) / width))

    def forward(self):
        half = len(self.rates)
        out = torch.empty((self.length, 2 * half), device=self.rates.device)
        rows = 128 if out.device.type == "cpu" else 16
        width = triton.next_power_of_2(half)
        table_kernel[(triton.cdiv(self.length, rows),)](
            self.rates, out, self.length, half, ROWS=rows, WIDTH=width, num_warps=4
        )
        return out
