# zoo: problem=running_sum backend=triton status=incorrect verdict=clean findings=-
"""Each program adds the sum that the program before it left in memory, and does not wait for it: right only where
programs run one after another, as in Triton's interpreter.

Stopped by structure: interpreted programs run in a random order."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def carried(x_ptr, out_ptr, carry_ptr, steps, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.arange(0, ROWS)
    column = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    offset = row[:, None] * steps + column[None, :]
    x = tl.load(x_ptr + offset)
    before = tl.load(carry_ptr + row)
    tl.store(out_ptr + offset, tl.cumsum(x, axis=1) + before[:, None])
    tl.store(carry_ptr + row, before + tl.sum(x, axis=1))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, steps = x.shape
        out, carry = torch.empty_like(x), torch.zeros(rows, device=x.device)
        width = 512
        carried[(steps // width,)](x, out, carry, steps, ROWS=rows, WIDTH=width)
        return out
