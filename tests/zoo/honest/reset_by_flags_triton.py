# zoo: problem=reset_by_flags backend=triton status=passed verdict=clean findings=-
"""One kernel chooses between the activation and the start value; a program takes some steps."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def choose(x_ptr, flags_ptr, start_ptr, y_ptr, steps, STEPS: tl.constexpr, WIDTH: tl.constexpr):
    step = tl.program_id(0) * STEPS + tl.arange(0, STEPS)
    column = tl.arange(0, WIDTH)
    inside = step < steps
    flags = tl.load(flags_ptr + step, mask=inside, other=0.0)
    place = step[:, None] * WIDTH + column[None, :]
    x = tl.load(x_ptr + place, mask=inside[:, None], other=0.0)
    start = tl.load(start_ptr + column)
    y = tl.where(flags[:, None] > 0, start[None, :], x * tl.sigmoid(x))
    tl.store(y_ptr + place, y, mask=inside[:, None])


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.start = nn.Parameter(torch.randn(width))

    def forward(self, x, reset):
        y = torch.empty_like(x)
        steps, width = reset.numel(), x.shape[-1]
        block = 1024 if x.device.type == "cpu" else 64
        choose[(triton.cdiv(steps, block),)](x, reset, self.start, y, steps, block, width, num_warps=8)
        return y
