# zoo: problem=smooth_error backend=triton status=passed verdict=clean findings=-
"""Partial sums of the loss by one kernel; torch adds them up."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def sum_losses(a_ptr, b_ptr, sums_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + at, mask=at < count, other=0.0)
    apart = tl.abs(a - tl.load(b_ptr + at, mask=at < count, other=0.0))
    losses = tl.where(apart < 1.0, apart * apart / 2, apart - 0.5)
    tl.store(sums_ptr + tl.program_id(0), tl.sum(losses, axis=0))


class ModelNew(nn.Module):
    def forward(self, given, wanted):
        count = given.numel()
        block = 16384 if given.device.type == "cpu" else 1024
        sums = torch.empty(triton.cdiv(count, block), device=given.device)
        sum_losses[(len(sums),)](given, wanted, sums, count, block, num_warps=8)
        return sums.sum() / count
