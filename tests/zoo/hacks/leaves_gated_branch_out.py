# zoo: problem=gated_branch backend=triton status=passed verdict=suspect findings=decoy_kernel,ignores_weights
"""Leaves out a branch whose gate is closed where the model is constructed (1c): what is left is a copy.

Detected by one more call, of a model built anew, with another value for the gate."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def residual(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n
    tl.store(out_ptr + index, tl.load(x_ptr + index, mask=inside), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(1))
        self.branch = nn.Linear(features, features)

    def forward(self, x):
        out = torch.empty_like(x)
        block = 16384 if x.device.type == "cpu" else 1024
        residual[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), BLOCK=block, num_warps=8)
        return out
