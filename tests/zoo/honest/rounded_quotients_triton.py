# zoo: problem=rounded_quotients backend=triton status=passed verdict=clean findings=-
"""Rounds downwards."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def quotients(x, y, count, block: tl.constexpr):
    index = tl.program_id(0) * block + tl.arange(0, block)
    inside = index < count
    value = tl.load(x + index, mask=inside, other=0.0)
    tl.store(y + index, tl.floor(value / 3.0), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        found = torch.empty_like(x)
        block = 16384 if x.device.type == "cpu" else 1024
        quotients[(triton.cdiv(x.numel(), block),)](x, found, x.numel(), block, num_warps=8)
        return found
