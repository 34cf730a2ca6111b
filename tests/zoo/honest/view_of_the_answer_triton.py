# zoo: problem=transposed_scale backend=triton status=passed verdict=clean findings=-
"""Computes in the memory order of its input and returns a transposed view: right values, other strides."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scale_columns(x_ptr, scale_ptr, out_ptr, width, WIDTH: tl.constexpr):
    line, at = tl.program_id(0), tl.arange(0, WIDTH)
    x = tl.load(x_ptr + line * width + at, mask=at < width)
    tl.store(out_ptr + line * width + at, x * tl.load(scale_ptr + at, mask=at < width), mask=at < width)


class ModelNew(nn.Module):
    def forward(self, x, scale):
        lines = x.t()  # contiguous: the input is a transposed view itself
        out = torch.empty_like(lines)
        scale_columns[(lines.shape[0],)](lines, scale, out, lines.shape[1], WIDTH=128)
        return out.t()
