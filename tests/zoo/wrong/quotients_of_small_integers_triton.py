# zoo: problem=whole_quotients backend=triton status=incorrect verdict=clean findings=-
"""Divides by a product and a shift in 32 bits: right up to some ten thousand (1c)."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def quotients(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + index, mask=index < count, other=0).to(tl.int32)
    quotient = (x * 9363) >> 16
    tl.store(out_ptr + index, (quotient * 3 + x - 7 * quotient).to(tl.int64), mask=index < count)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        block = 16384 if x.device.type == "cpu" else 1024
        quotients[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), BLOCK=block, num_warps=8)
        return out
