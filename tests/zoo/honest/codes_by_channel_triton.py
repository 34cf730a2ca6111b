# zoo: problem=codes_by_channel backend=triton status=passed verdict=clean findings=-
"""Divides by the step, which is never zero; zero divided by zero would be no number where the reference has one."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def to_codes_and_back(x_ptr, step_ptr, out_ptr, length, WIDTH: tl.constexpr):
    channel, column = tl.program_id(0), tl.arange(0, WIDTH)
    inside = column < length
    step = tl.load(step_ptr + channel)
    code = tl.load(x_ptr + channel * length + column, mask=inside, other=0.0) / step
    below = tl.floor(code)
    rest = code - below
    up = (rest > 0.5) | ((rest == 0.5) & (below - 2 * tl.floor(below * 0.5) == 1))
    code = tl.minimum(tl.maximum(below + tl.where(up, 1.0, 0.0), -128.0), 127.0)
    tl.store(out_ptr + channel * length + column, code * step, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x, step):
        channels, length = x.shape
        out = torch.empty_like(x)
        to_codes_and_back[(channels,)](x, step, out, length, WIDTH=triton.next_power_of_2(length))
        return out
