# zoo: problem=convolution_chain backend=triton status=passed verdict=clean findings=-
"""The library convolves, and a kernel does all that follows, eight channels in a program: 8 % of the work, in place of
two fifths of the reference's."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def norm_chain(
    x_ptr, shift_ptr, out_ptr, rows, places, channels, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    row, index = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None], tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (index < places)
    x = tl.load(x_ptr + row * places + index, mask=inside, other=0.0)
    x = tl.where(inside, x - tl.sum(x, 1)[:, None] / places, 0.0)
    y = x * tl.rsqrt(tl.sum(x * x, 1)[:, None] / places + 1e-5)
    y = y * tl.sigmoid(y) + tl.load(shift_ptr + row % channels)
    y = tl.minimum(tl.maximum(y, -1.0), 2.0)
    y = 0.5 * y * (1 + tl.erf(y * 0.7071067811865476)) / 1.5
    tl.store(out_ptr + row * places + index, y, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.convolution = nn.Conv2d(channels, channels, 3, padding=1)
        self.shift = nn.Parameter(torch.empty(channels, 1, 1))

    def forward(self, x):
        y = self.convolution(x)
        batch, channels, height, width = y.shape
        places, out = height * width, torch.empty_like(y)
        rows, block = batch * channels, triton.next_power_of_2(places)
        norm_chain[(triton.cdiv(rows, 8),)](y, self.shift, out, rows, places, channels, 8, block)
        return out
