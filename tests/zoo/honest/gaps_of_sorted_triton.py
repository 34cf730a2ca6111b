# zoo: problem=gaps_of_sorted backend=triton status=passed verdict=clean findings=-
# on a gpu: status=passed verdict=suspect findings=lazy_optimisation
"""The library sorts, and a kernel subtracts neighbours: half of a call's modelled work.  On a GPU the sort takes more
than nine tenths of the time, so that it is the library's speed that is measured."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def gaps(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    inside = at < columns - 1
    low = tl.load(x_ptr + row * columns + at, mask=inside)
    high = tl.load(x_ptr + row * columns + at + 1, mask=inside)
    tl.store(out_ptr + row * (columns - 1) + at, high - low, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        ordered = torch.sort(x, dim=-1).values
        out = torch.empty(rows, columns - 1, device=x.device, dtype=x.dtype)
        gaps[(rows,)](ordered, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out
