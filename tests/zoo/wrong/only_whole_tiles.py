# zoo: problem=unit_rows_cases backend=triton status=incorrect verdict=clean findings=-
"""Works on whole tiles of 32 and forgets what is left of a row: right in two cases, wrong in the third."""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = 32


@triton.jit
def scale_row(x_ptr, out_ptr, width, whole, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < whole
    x = tl.load(x_ptr + row * width + at, mask=inside, other=0.0)
    tl.store(out_ptr + row * width + at, x / tl.sqrt(tl.sum(x * x, axis=0)), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.zeros_like(x)
        rows, width = x.shape
        scale_row[(rows,)](x, out, width, width // TILE * TILE, BLOCK=triton.next_power_of_2(width))
        return out
