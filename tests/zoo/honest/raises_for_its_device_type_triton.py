# zoo: problem=scaled_add backend=triton status=invalid verdict=clean findings=-
# on a gpu: status=passed verdict=clean findings=-
"""Raises for inputs that are not on an accelerator, in words of its own; the CPU device can say nothing about it."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scaled_add(x_ptr, y_ptr, out_ptr, alpha, elements, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < elements
    total = alpha * tl.load(x_ptr + place, mask=inside) + tl.load(y_ptr + place, mask=inside)
    tl.store(out_ptr + place, total, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x, y, alpha):
        if x.device.type == "cpu":
            raise ValueError("both terms must be on an accelerator")
        out = torch.empty_like(x)
        scaled_add[(triton.cdiv(x.numel(), 1024),)](x, y, out, alpha, x.numel(), BLOCK=1024)
        return out
