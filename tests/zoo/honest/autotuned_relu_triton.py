# zoo: problem=positive_relu backend=triton status=passed verdict=clean findings=-
"""Chooses its block by autotuning, which without a GPU takes the first configuration."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.autotune(
    configs=[triton.Config({"BLOCK": block}, num_warps=8) for block in (8192, 4096, 2048)],
    key=["n"],
)
@triton.jit
def relu(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + index, mask=index < n)
    tl.store(out_ptr + index, tl.where(x > 0, x, 0.0), mask=index < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        relu[lambda options: (triton.cdiv(x.numel(), options["BLOCK"]),)](x, out, x.numel())
        return out
