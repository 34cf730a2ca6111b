# zoo: problem=codes_by_channel backend=triton status=passed verdict=clean findings=-
"""The library's conversion to the nearest integer, halves to the even one."""

import torch
import triton
import triton.language as tl
from torch import nn
from triton.language.extra import libdevice


@triton.jit
def to_codes_and_back(x_ptr, step_ptr, out_ptr, length, WIDTH: tl.constexpr):
    channel, column = tl.program_id(0), tl.arange(0, WIDTH)
    inside = column < length
    step = tl.load(step_ptr + channel)
    code = libdevice.llrint(tl.load(x_ptr + channel * length + column, mask=inside, other=0.0) / step)
    code = tl.minimum(tl.maximum(code, -128), 127).to(tl.float32)
    tl.store(out_ptr + channel * length + column, code * step, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x, step):
        channels, length = x.shape
        out = torch.empty_like(x)
        to_codes_and_back[(channels,)](x, step, out, length, WIDTH=triton.next_power_of_2(length))
        return out
