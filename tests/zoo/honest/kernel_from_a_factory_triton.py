# zoo: problem=clamped_rows backend=triton status=passed verdict=clean findings=-
"""A function makes the kernel for its limits, which the kernel reads as names of that function."""

import torch
import triton
import triton.language as tl
from torch import nn


def made(least, most):
    LOW, HIGH = tl.constexpr(least), tl.constexpr(most)

    @triton.jit
    def limited(x):
        return tl.minimum(tl.maximum(x, LOW), HIGH)

    @triton.jit
    def clamp(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + at, limited(tl.load(x_ptr + at, mask=at < count)), mask=at < count)

    return clamp


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.clamp = made(-50.0, 50.0)

    def forward(self, x):
        block = 16384 if x.device.type == "cpu" else 1024
        out = torch.empty_like(x)
        self.clamp[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), BLOCK=block)
        return out
