# zoo: problem=unit_rows_cases backend=triton status=passed verdict=clean findings=-
"""A row to a program, masked beyond its width, whatever that is: the problem has cases of several."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scale_row(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < width
    x = tl.load(x_ptr + row * width + at, mask=inside, other=0.0)
    tl.store(out_ptr + row * width + at, x / tl.sqrt(tl.sum(x * x, axis=0)), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        rows, width = x.shape
        scale_row[(rows,)](x, out, width, BLOCK=triton.next_power_of_2(width))
        return out
