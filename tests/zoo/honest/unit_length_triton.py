# zoo: problem=unit_length backend=triton status=passed verdict=clean findings=-
"""Lengths of at least 1e-12, as in the reference, so that faint rows come out right, too."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def unit_length(x_ptr, out_ptr, rows, features, factor, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    inside = (row < rows) & (column < features)
    x = tl.load(x_ptr + row * features + column, mask=inside, other=0.0)
    squares = tl.sum(x * x, axis=1)
    length = tl.maximum(tl.sqrt(squares), 1e-12)
    tl.store(out_ptr + row * features + column, x / length[:, None] * factor, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, features = x.shape
        out = torch.empty_like(x)
        per_program = 32 if x.device.type == "cpu" else 1  # the interpreter pays per program
        width = triton.next_power_of_2(features)
        unit_length[(triton.cdiv(rows, per_program),)](
            x, out, rows, features, features**0.5, ROWS=per_program, WIDTH=width
        )
        return out
