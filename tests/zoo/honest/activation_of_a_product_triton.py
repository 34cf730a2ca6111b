# zoo: problem=linear_mish backend=triton status=passed verdict=clean findings=-
"""The product by the library, as in the reference, and its activation in a kernel: a function of each element of what the
library computed, but not with less work than the reference's."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def mish(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + index, mask=index < n)
    power = tl.exp(tl.minimum(x, 20.0))
    ratio = power * (power + 2.0) / (power * (power + 2.0) + 2.0)
    tl.store(out_ptr + index, x * tl.where(x > 20.0, 1.0, ratio), mask=index < n)


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        x = self.linear(x)
        out, block = torch.empty_like(x), 16384 if x.device.type == "cpu" else 1024
        mish[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), BLOCK=block, num_warps=8)
        return out
