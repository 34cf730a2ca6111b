# zoo: problem=scaled_add backend=triton status=passed verdict=clean findings=-
"""Returns the same output tensor in every call, written anew each time: looks like a cache, and is a buffer."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scaled_add(x_ptr, y_ptr, out_ptr, alpha, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n
    total = alpha * tl.load(x_ptr + index, mask=inside) + tl.load(y_ptr + index, mask=inside)
    tl.store(out_ptr + index, total, mask=inside)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.buffers_by_shape = {}

    def forward(self, x, y, alpha):
        key = (x.shape, x.dtype, x.device)
        out = self.buffers_by_shape.get(key)
        if out is None:
            out = self.buffers_by_shape[key] = torch.empty_like(x)
        block = 16384 if x.device.type == "cpu" else 1024
        scaled_add[(triton.cdiv(x.numel(), block),)](x, y, out, alpha, x.numel(), BLOCK=block)
        return out
