# zoo: problem=scaled_add backend=triton status=passed verdict=clean findings=- speedup=<1
"""Asks a constant parameter for its value, as compiled code passes it."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scaled_add(x_ptr, y_ptr, out_ptr, alpha, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n
    x = tl.load(x_ptr + index, mask=inside)
    y = tl.load(y_ptr + index, mask=inside)
    tl.store(out_ptr + index, alpha * x + y, mask=inside & (tl.arange(0, BLOCK) < BLOCK.value))


class ModelNew(nn.Module):
    def forward(self, x, y, alpha):
        out = torch.empty_like(x)
        block = 16384 if x.device.type == "cpu" else 1024  # the interpreter pays per program, a GPU per register
        scaled_add[(triton.cdiv(x.numel(), block),)](x, y, out, alpha, x.numel(), BLOCK=block, num_warps=8)
        return out
