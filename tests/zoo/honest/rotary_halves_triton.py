# zoo: problem=rotary_embedding backend=triton status=passed verdict=clean findings=-
"""Reads the first halves of the cosines and sines alone: the second ones repeat them."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def rotate(x_ptr, cosine_ptr, sine_ptr, out_ptr, rows, length, HALF: tl.constexpr, ROWS: tl.constexpr, WIDE: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, WIDE)[None, :]
    inside = (row < rows) & (column < HALF)
    at = row * 2 * HALF + column
    angle = (row % length) * 2 * HALF + column
    cosine = tl.load(cosine_ptr + angle, mask=inside, other=0.0)
    sine = tl.load(sine_ptr + angle, mask=inside, other=0.0)
    first = tl.load(x_ptr + at, mask=inside, other=0.0)
    second = tl.load(x_ptr + at + HALF, mask=inside, other=0.0)
    tl.store(out_ptr + at, first * cosine - second * sine, mask=inside)
    tl.store(out_ptr + at + HALF, second * cosine + first * sine, mask=inside)


class ModelNew(nn.Module):
    def forward(self, queries, keys, cosines, sines):
        return tuple(self.rotated(x, cosines, sines) for x in (queries, keys))

    def rotated(self, x, cosines, sines):
        out = torch.empty_like(x)
        length, width = x.shape[-2:]
        rows = x.numel() // width
        many = 128 if x.device.type == "cpu" else 8
        rotate[(triton.cdiv(rows, many),)](
            x, cosines, sines, out, rows, length, HALF=width // 2, ROWS=many, WIDE=triton.next_power_of_2(width // 2)
        )
        return out
