# zoo: problem=running_sum backend=triton status=passed verdict=clean findings=-
"""Each program waits for the sum of the one before it, whose flag is set once the sum is in memory."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def look_back(x_ptr, out_ptr, carry_ptr, flag_ptr, steps, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    program = tl.program_id(0)
    row = tl.arange(0, ROWS)
    offset = row[:, None] * steps + (program * WIDTH + tl.arange(0, WIDTH))[None, :]
    x = tl.load(x_ptr + offset)
    while tl.atomic_add(flag_ptr + program, 0) == 0:
        pass
    before = tl.load(carry_ptr + program * ROWS + row)
    tl.store(carry_ptr + (program + 1) * ROWS + row, before + tl.sum(x, axis=1))
    tl.debug_barrier()
    tl.atomic_xchg(flag_ptr + program + 1, 1)
    tl.store(out_ptr + offset, tl.cumsum(x, axis=1) + before[:, None])


class ModelNew(nn.Module):
    def forward(self, x):
        rows, steps = x.shape
        width = 512
        programs = steps // width
        carry = torch.zeros(programs + 1, rows, device=x.device)
        flags = torch.zeros(programs + 1, dtype=torch.int32, device=x.device)
        flags[0] = 1
        out = torch.empty_like(x)
        look_back[(programs,)](x, out, carry, flags, steps, ROWS=rows, WIDTH=width)
        return out
