# zoo: problem=unrolled_growth backend=triton status=passed verdict=clean findings=-
"""One kernel multiplies all steps of a recurrence, whose factors the library made."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def multiply(factor_ptr, out_ptr, steps, CHANNELS: tl.constexpr):
    at = tl.program_id(0) * steps * CHANNELS + tl.arange(0, CHANNELS)
    state = tl.full((CHANNELS,), 1.0, tl.float32)
    for _ in range(steps):
        state = state * tl.load(factor_ptr + at)
        tl.store(out_ptr + at, state)
        at += CHANNELS


class ModelNew(nn.Module):
    def forward(self, x):
        batch, steps, channels = x.shape
        factors, out = 0.98 + 0.04 * x, torch.empty_like(x)
        multiply[(batch,)](factors, out, steps, CHANNELS=channels)
        return out
