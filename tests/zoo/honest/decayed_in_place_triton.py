# zoo: problem=decayed_in_place backend=triton status=passed verdict=clean findings=-
"""Scales its input where it lies: a multiple of an input, which holds other values afterwards."""

import torch
import triton
import triton.language as tl


@triton.jit
def decay(x_ptr, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n
    x = tl.load(x_ptr + index, mask=inside)
    tl.store(x_ptr + index, x * 0.75, mask=inside)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        block = 16384 if x.device.type == "cpu" else 1024
        decay[(triton.cdiv(x.numel(), block),)](x, x.numel(), BLOCK=block, num_warps=8)
        return x
