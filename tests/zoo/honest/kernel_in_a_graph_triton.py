# zoo: problem=scaled_add backend=triton status=passed verdict=clean findings=- needs=gpu
"""A kernel of its own in a function that torch.compile compiles: Inductor launches it, under the kernel's own name."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scaled_add(x_ptr, y_ptr, out_ptr, alpha, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n
    x = tl.load(x_ptr + index, mask=inside)
    y = tl.load(y_ptr + index, mask=inside)
    tl.store(out_ptr + index, alpha * x + y, mask=inside)


@torch.compile
def add(x, y, alpha):
    out = torch.empty_like(x)
    scaled_add[(triton.cdiv(x.numel(), 1024),)](x, y, out, alpha, x.numel(), BLOCK=1024)
    return out


class ModelNew(nn.Module):
    def forward(self, x, y, alpha):
        return add(x, y, alpha)
