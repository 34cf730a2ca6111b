# zoo: problem=scaled_add backend=triton status=crashed verdict=clean findings=-
# on a gpu: status=runtime_error verdict=clean findings=-
"""No mask, and an index that runs far past the end: the interpreter really reads there and dies of it."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scaled_add(x_ptr, y_ptr, out_ptr, alpha, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK) * STRIDE
    tl.store(out_ptr + index, alpha * tl.load(x_ptr + index) + tl.load(y_ptr + index))


class ModelNew(nn.Module):
    def forward(self, x, y, alpha):
        out = torch.empty_like(x)
        scaled_add[(1,)](x, y, out, alpha, STRIDE=1 << 20, BLOCK=1024)  # 4 MiB between two elements
        return out
