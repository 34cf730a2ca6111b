# zoo: problem=row_softmax backend=triton status=incorrect verdict=clean findings=-
"""Leaves the maximum out: right until a number above 88 is among a row's, where exp is infinite (1c)."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    start = tl.program_id(0) * columns
    x = tl.load(x_ptr + start + index, mask=index < columns, other=-float("inf"))
    grown = tl.exp(x)
    tl.store(out_ptr + start + index, grown / tl.sum(grown, 0), mask=index < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        rows, columns = x.shape
        softmax_kernel[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out
