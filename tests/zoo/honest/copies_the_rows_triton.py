# zoo: problem=kept_rows backend=triton status=passed verdict=clean findings=-
"""A kernel that copies, for a problem that asks for a copy: a copy in its place is right, too."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def copy(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < count)
    tl.store(out_ptr + at, x, mask=at < count)


class ModelNew(nn.Module):
    def forward(self, x):
        block = 16384 if x.device.type == "cpu" else 1024
        outs = torch.empty_like(x), x.new_empty(x.numel() // 100, 100)
        for out in outs:
            copy[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), BLOCK=block)
        return outs
