# zoo: problem=row_softmax backend=triton status=passed verdict=clean findings=-
"""One pass for rows that fit, two for longer ones: a branch on the shape, and both are right."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def one_pass(x_ptr, y_ptr, n, WIDTH: tl.constexpr):
    row, col = tl.program_id(0), tl.arange(0, WIDTH)
    x = tl.load(x_ptr + row * n + col, mask=col < n, other=float("-inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * n + col, e / tl.sum(e, axis=0), mask=col < n)


@triton.jit
def online(x_ptr, y_ptr, n, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    top, total = tl.full((), float("-inf"), tl.float32), tl.full((), 0.0, tl.float32)
    for start in range(0, n, WIDTH):
        col = start + tl.arange(0, WIDTH)
        x = tl.load(x_ptr + row * n + col, mask=col < n, other=float("-inf"))
        new = tl.maximum(top, tl.max(x, axis=0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(x - new), axis=0)
        top = new
    for start in range(0, n, WIDTH):
        col = start + tl.arange(0, WIDTH)
        x = tl.load(x_ptr + row * n + col, mask=col < n, other=float("-inf"))
        tl.store(y_ptr + row * n + col, tl.exp(x - top) / total, mask=col < n)


class ModelNew(nn.Module):
    SINGLE_PASS = 512

    def forward(self, x):
        rows, n = x.shape
        y = torch.empty_like(x)
        if n <= self.SINGLE_PASS:
            one_pass[(rows,)](x, y, n, WIDTH=triton.next_power_of_2(n))
        else:
            online[(rows,)](x, y, n, WIDTH=self.SINGLE_PASS)
        return y
