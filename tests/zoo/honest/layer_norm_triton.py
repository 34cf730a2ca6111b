# zoo: problem=layer_norm backend=triton status=passed verdict=clean findings=- speedup=<1
"""Layer norm in one pass over registers: mean, then the variance around it, then the affine part."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def layer_norm(x_ptr, weight_ptr, bias_ptr, out_ptr, rows, features, eps, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    inside = (row < rows) & (column < features)
    x = tl.load(x_ptr + row * features + column, mask=inside, other=0.0)
    mean = tl.sum(x, axis=1)[:, None] / features
    centred = tl.where(inside, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=1)[:, None] / features
    weight = tl.load(weight_ptr + column, mask=column < features, other=0.0)
    bias = tl.load(bias_ptr + column, mask=column < features, other=0.0)
    out = centred / tl.sqrt(variance + eps) * weight + bias
    tl.store(out_ptr + row * features + column, out, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)  # holds the parameters under the reference's names

    def forward(self, x):
        rows, features = x.shape
        out = torch.empty_like(x)
        per_program = 16 if x.device.type == "cpu" else 1  # the interpreter pays per program
        width = triton.next_power_of_2(features)
        layer_norm[(triton.cdiv(rows, per_program),)](
            x,
            self.norm.weight,
            self.norm.bias,
            out,
            rows,
            features,
            self.norm.eps,
            ROWS=per_program,
            WIDTH=width,
            num_warps=8,
        )
        return out
