# zoo: problem=positive_relu backend=triton status=passed verdict=clean findings=-
"""A plain ReLU, which a copy would do for on these inputs."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def relu(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + index, tl.maximum(tl.load(x_ptr + index, mask=index < n), 0.0), mask=index < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        block = 16384 if x.device.type == "cpu" else 1024
        relu[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), BLOCK=block)
        return out
