# zoo: problem=learned_bins backend=triton status=passed verdict=clean findings=-
"""The bin of each number by a binary search of the sorted edges."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def look_up(x, edges, values, out, count, bins: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    number = tl.load(x + at, mask=at < count, other=0.0)
    low = tl.zeros((BLOCK,), tl.int32)
    step = bins // 2
    while step > 0:
        low = tl.where(number > tl.load(edges + low + step - 1), low + step, low)
        step = step // 2
    tl.store(out + at, tl.load(values + low), mask=at < count)


class ModelNew(nn.Module):
    def __init__(self, bins):
        super().__init__()
        self.edges = nn.Parameter(torch.linspace(-3.0, 3.0, bins - 1))
        self.values = nn.Parameter(torch.randn(bins))

    def forward(self, x):
        out = torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), 4096),)
        look_up[grid](x, self.edges, self.values, out, x.numel(), len(self.values), BLOCK=4096)
        return out
