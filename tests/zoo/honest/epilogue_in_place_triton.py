# zoo: problem=linear_gelu backend=triton status=passed verdict=clean findings=-
"""The library multiplies with bias, and a kernel applies GELU in the product's own memory."""

import torch
import triton
import triton.language as tl
from torch import nn
import torch.nn.functional as F


@triton.jit
def gelu_inplace(ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    z = tl.load(ptr + offs, mask=mask)
    tl.store(ptr + offs, 0.5 * z * (1.0 + tl.erf(z * 0.7071067811865476)), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        z = F.linear(x, self.linear.weight, self.linear.bias)
        block = 16384 if z.device.type == "cpu" else 1024
        gelu_inplace[(triton.cdiv(z.numel(), block),)](z, z.numel(), BLOCK=block)
        return z
