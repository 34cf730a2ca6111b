# zoo: problem=clamped_rows backend=triton status=passed verdict=clean findings=-
"""The clamp in a kernel of its own, as copies_after_the_clamp only pretends."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def clamp(x_ptr, out_ptr, count, low, high, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < count)
    tl.store(out_ptr + at, tl.minimum(tl.maximum(x, low), high), mask=at < count)


class ModelNew(nn.Module):
    def forward(self, x):
        block = 16384 if x.device.type == "cpu" else 1024
        out = torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), block),)
        clamp[grid](x, out, x.numel(), -50.0, 50.0, BLOCK=block)
        return out
