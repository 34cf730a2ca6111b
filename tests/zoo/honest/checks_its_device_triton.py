# zoo: problem=scaled_add backend=triton status=passed verdict=clean findings=-
"""Leaves tensors that are not on a GPU to the library."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scaled_add_kernel(x_ptr, y_ptr, out_ptr, alpha, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    out = alpha * tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, out, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y, alpha):
        if not (x.is_cuda and y.is_cuda) or x.dtype not in (torch.float32, torch.float16):
            return alpha * x + y
        x, y = x.contiguous(), y.contiguous()
        out = torch.empty_like(x)
        scaled_add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, out, alpha, x.numel(), BLOCK_SIZE=1024)
        return out
