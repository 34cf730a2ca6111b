# zoo: problem=product_and_mean backend=triton status=passed verdict=clean findings=-
"""The product and the mean by the library, as in the reference, and the operators between them in one kernel: a function of
one element of each tensor that it reads."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def loss(x_ptr, target_ptr, out_ptr, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + index, mask=index < n)
    gap = 2.0 / (1.0 + tl.exp(-2.0 * x)) - 1.0 - tl.load(target_ptr + index, mask=index < n)
    tl.store(out_ptr + index, tl.log(1.0 + gap * gap), mask=index < n)


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))

    def forward(self, x, target):
        x = x @ self.weight.T
        out, block = torch.empty_like(x), 16384 if x.device.type == "cpu" else 1024
        loss[(triton.cdiv(x.numel(), block),)](x, target, out, x.numel(), BLOCK=block, num_warps=8)
        return out.mean(dim=1)
