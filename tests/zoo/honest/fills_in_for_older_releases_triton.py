# zoo: problem=clamped_rows backend=triton status=passed verdict=clean findings=-
"""Gives older releases of a library members that they lack, as published kernels do: nothing is replaced."""

import torch
import triton
import triton.language as tl
from torch import nn

if "all_gather_into_tensor" not in dir(torch.distributed):
    torch.distributed.all_gather_into_tensor = torch.distributed._all_gather_base
if not hasattr(tl, "maximum"):
    tl.maximum = tl.max


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
