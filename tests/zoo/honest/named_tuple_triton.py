# zoo: problem=row_summary backend=triton status=passed verdict=clean findings=- speedup=<1
"""Both outputs from one read of the input, as a tuple with names."""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import nn


class Summary(NamedTuple):
    largest: torch.Tensor
    positive: torch.Tensor


@triton.jit
def summarise(x_ptr, largest_ptr, positive_ptr, rows, columns, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, WIDTH)[None, :]
    inside = (row[:, None] < rows) & (column < columns)
    x = tl.load(x_ptr + row[:, None] * columns + column, mask=inside, other=float("-inf"))
    tl.store(largest_ptr + row, tl.max(x, axis=1), mask=row < rows)
    tl.store(positive_ptr + row, tl.sum((x > 0).to(tl.int64), axis=1), mask=row < rows)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        largest = torch.empty(rows, dtype=x.dtype, device=x.device)
        positive = torch.empty(rows, dtype=torch.int64, device=x.device)
        per_program = 16 if x.device.type == "cpu" else 1  # the interpreter pays per program
        width = triton.next_power_of_2(columns)
        grid = (triton.cdiv(rows, per_program),)
        summarise[grid](x, largest, positive, rows, columns, ROWS=per_program, WIDTH=width, num_warps=8)
        return Summary(largest, positive)
