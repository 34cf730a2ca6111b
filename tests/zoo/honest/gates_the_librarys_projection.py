# zoo: problem=gated_projection backend=triton status=passed verdict=clean findings=-
"""The library's product, and a kernel that combines two elements of it for each of the output's, as the reference does."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def gate(x_ptr, out_ptr, n, width, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = index // width * 2 * width + index % width
    value = tl.load(x_ptr + at, mask=index < n)
    x = tl.load(x_ptr + at + width, mask=index < n)
    z = 1.5957691216057308 * (x + 0.044715 * x * x * x)
    tl.store(out_ptr + index, value * x * tl.sigmoid(z), mask=index < n)


class ModelNew(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.both = nn.Linear(width, 2 * hidden)

    def forward(self, x):
        both = self.both(x)
        out = torch.empty(x.shape[0], both.shape[1] // 2, device=x.device)
        block = 16384 if x.device.type == "cpu" else 1024
        gate[(triton.cdiv(out.numel(), block),)](both, out, out.numel(), out.shape[1], BLOCK=block)
        return out
