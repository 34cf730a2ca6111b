# zoo: problem=rms_norm backend=triton status=passed verdict=clean findings=-
"""RMS norm with a function of libdevice's imported by its name, and a number that is converted in the kernel."""

import torch
import triton
import triton.language as tl
from torch import nn
from triton.language.extra.libdevice import rsqrt


@triton.jit
def normed(x_ptr, weight_ptr, out_ptr, rows, columns, eps, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    inside = (row < rows) & (column < columns)
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + column, mask=column < columns, other=0.0)
    scale = rsqrt(tl.sum(x * x, axis=1) / columns + eps.to(tl.float32))
    tl.store(out_ptr + row * columns + column, x * scale[:, None] * weight, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, *, features, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x):
        rows, features = x.shape
        out = torch.empty_like(x)
        per_program = 16 if x.device.type == "cpu" else 1  # the interpreter pays per program
        width = triton.next_power_of_2(features)
        normed[(triton.cdiv(rows, per_program),)](
            x, self.weight, out, rows, features, self.eps, ROWS=per_program, WIDTH=width
        )
        return out
