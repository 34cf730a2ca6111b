# zoo: problem=bfloat_relu backend=triton status=passed verdict=clean findings=-
"""Adds and compares in bfloat16, which Triton's interpreter keeps as integers: the CPU device widens them to fp32."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def shifted_relu(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n
    x = tl.load(x_ptr + index, mask=inside)
    tl.store(out_ptr + index, tl.maximum(x + 0.5, 0.0).to(tl.bfloat16), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        block = 16384 if x.device.type == "cpu" else 1024  # the interpreter pays per program
        shifted_relu[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), BLOCK=block, num_warps=8)
        return out
