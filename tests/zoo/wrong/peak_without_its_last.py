# zoo: problem=row_peak backend=triton status=incorrect verdict=clean findings=-
"""Goes over whole blocks only and leaves out the last element, which is the largest of its row in one case of 8193."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def row_peak(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    peak = tl.full((BLOCK,), float("-inf"), tl.float32)
    for start in range(0, columns // BLOCK * BLOCK, BLOCK):
        peak = tl.maximum(peak, tl.load(x_ptr + row * columns + start + tl.arange(0, BLOCK)))
    tl.store(out_ptr + row, tl.max(peak, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], device=x.device)
        row_peak[(x.shape[0],)](x, out, x.shape[1], BLOCK=4096)
        return out
