# zoo: problem=filled_ranges backend=triton status=passed verdict=clean findings=-
"""Its kernel writes the same number whatever the inputs are, because the problem asks for that."""

import torch
import triton
import triton.language as tl
from torch import nn

RANGES = ((17, 60), (131, 180))


@triton.jit
def fill(x_ptr, columns, value, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * columns + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, value, mask=tl.arange(0, BLOCK) < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        out = x.clone()
        columns = x.shape[1]
        for start, end in RANGES:
            fill[(end - start,)](out[start:], columns, -1.5, BLOCK=triton.next_power_of_2(columns))
        return out
