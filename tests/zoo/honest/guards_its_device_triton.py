# zoo: problem=row_softmax backend=triton status=passed verdict=clean findings=-
"""Selects the device of its input around the launch, by the device and by its index, as libraries of kernels do."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def softmax(x_ptr, out_ptr, columns, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, WIDTH)
    x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=float("-inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * columns + column, e / tl.sum(e, axis=0), mask=column < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.empty_like(x)
        with torch.cuda.device(x.device), torch.cuda.device(x.device.index):
            softmax[(rows,)](x, out, columns, WIDTH=triton.next_power_of_2(columns))
        return out
