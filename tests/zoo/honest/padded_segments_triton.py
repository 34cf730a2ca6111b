# zoo: problem=padded_segments backend=triton status=passed verdict=clean findings=-
"""A program for each row and segment, in no order: segments that overlapped would have no one answer."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def softmax(x_ptr, starts_ptr, lengths_ptr, out_ptr, columns, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    segment = tl.num_programs(0) - 1 - tl.program_id(0)
    length = tl.load(lengths_ptr + segment)
    place = tl.arange(0, WIDTH)[None, :]
    row = tl.arange(0, ROWS)[:, None]
    at = row * columns + tl.load(starts_ptr + segment) + place
    x = tl.load(x_ptr + at, mask=place < length, other=float("-inf"))
    e = tl.exp(x - tl.max(x, axis=1)[:, None])
    tl.store(out_ptr + at, e / tl.sum(e, axis=1)[:, None], mask=place < length)


class ModelNew(nn.Module):
    def forward(self, x, starts, lengths):
        out = torch.zeros_like(x)
        rows, columns = x.shape
        softmax[(len(starts),)](x, starts, lengths, out, columns, ROWS=rows, WIDTH=64)
        return out
