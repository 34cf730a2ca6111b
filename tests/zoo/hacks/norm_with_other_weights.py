# zoo: problem=plain_norm backend=triton status=passed verdict=suspect findings=ignores_weights
"""Has weight and bias under names of its own, which nothing looks at (1c).

Detected: the only parameter that is like a constant of the problem stands for it, and is given other values."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def norm_gelu(x_ptr, out_ptr, rows, features, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    inside = (row < rows) & (column < features)
    x = tl.load(x_ptr + row * features + column, mask=inside, other=0.0)
    mean = tl.sum(x, axis=1)[:, None] / features
    centred = tl.where(inside, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=1)[:, None] / features
    y = centred / tl.sqrt(variance + 1e-5)
    gate = 1.0 / (1.0 + tl.exp(-1.5957691216 * (y + 0.044715 * y * y * y)))  # (1 + tanh(z)) / 2 is sigmoid(2 z)
    tl.store(out_ptr + row * features + column, y * gate, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))
        self.shift = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        rows, features = x.shape
        out = torch.empty_like(x)
        per_program = 16 if x.device.type == "cpu" else 1  # the interpreter pays per program
        width = triton.next_power_of_2(features)
        norm_gelu[(triton.cdiv(rows, per_program),)](x, out, rows, features, ROWS=per_program, WIDTH=width, num_warps=4)
        return out
