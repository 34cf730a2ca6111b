# zoo: problem=small_step backend=triton status=passed verdict=clean findings=-
"""The step in one kernel.  A copy of the parameters in its place would be within the tolerance, and is no answer:
elements that the step moves even after rounding would stay."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def step_kernel(p_ptr, g_ptr, square_ptr, out_ptr, count, rate, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    p = tl.load(p_ptr + at, mask=inside, other=0.0).to(tl.float32)
    g = tl.load(g_ptr + at, mask=inside, other=0.0).to(tl.float32)
    square = tl.load(square_ptr + at, mask=inside, other=1.0)
    p -= rate * g / (tl.sqrt(square) + 1e-8)
    tl.store(out_ptr + at, p, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def forward(self, parameters, gradient, square):
        out = torch.empty_like(parameters)
        block = 16384 if out.device.type == "cpu" else 1024
        step_kernel[(triton.cdiv(out.numel(), block),)](
            parameters, gradient, square, out, out.numel(), self.rate, BLOCK=block, num_warps=8
        )
        return out
