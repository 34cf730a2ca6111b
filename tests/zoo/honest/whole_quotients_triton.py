# zoo: problem=whole_quotients backend=triton status=passed verdict=clean findings=-
"""Rounds a quotient towards minus infinity, as the reference does, where the language rounds it towards zero."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def quotients(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + index, mask=index < count, other=0)
    rest = x % 7
    rest = tl.where(rest < 0, rest + 7, rest)
    tl.store(out_ptr + index, (x - rest) // 7 * 3 + rest, mask=index < count)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        block = 16384 if x.device.type == "cpu" else 1024
        quotients[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), BLOCK=block, num_warps=8)
        return out
