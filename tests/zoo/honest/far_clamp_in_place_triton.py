# zoo: problem=far_clamp backend=triton status=passed verdict=clean findings=-
"""Clamps the library's product in place.  On the problem's own inputs that changes nothing, as in the reference."""

import triton
import triton.language as tl
from torch import nn


@triton.jit
def clamp_(x_ptr, n, low, high, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + index, mask=index < n)
    tl.store(x_ptr + index, tl.minimum(tl.maximum(x, low), high), mask=index < n)


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        out = self.linear(x)
        clamp_[(triton.cdiv(out.numel(), 8192),)](out, out.numel(), -3.0, 3.0, BLOCK=8192, num_warps=8)
        return out
