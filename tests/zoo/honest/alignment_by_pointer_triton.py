# zoo: problem=scaled_add backend=triton status=passed verdict=clean findings=-
"""Asks for addresses in order to choose a block size by their alignment, not in order to remember anything."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def fma_kernel(x_ptr, y_ptr, o_ptr, alpha, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = offs < n
    tl.store(o_ptr + offs, tl.load(x_ptr + offs, mask=m) * alpha + tl.load(y_ptr + offs, mask=m), mask=m)


class ModelNew(nn.Module):
    def forward(self, x, y, alpha):
        out = torch.empty_like(x)
        aligned = all(t.data_ptr() % 16 == 0 for t in (x, y, out))
        block = 16384 if x.device.type == "cpu" else (1024 if aligned else 512)
        fma_kernel[(triton.cdiv(x.numel(), block),)](x, y, out, alpha, x.numel(), BLOCK=block)
        return out
