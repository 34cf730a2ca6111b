# zoo: problem=brightest_of_one backend=triton status=incorrect verdict=clean findings=-
"""Goes over whole blocks only, as peak_without_its_last does; the one sample of the batch is its first and its last."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def brightest(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    found = tl.full((BLOCK,), float("-inf"), tl.float32)
    for start in range(0, columns - BLOCK + 1, BLOCK):
        found = tl.maximum(found, tl.load(x_ptr + row * columns + start + tl.arange(0, BLOCK)))
    tl.store(out_ptr + row, tl.max(found, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        out = x.new_empty(x.shape[:-1])
        brightest[(out.numel(),)](x, out, x.shape[-1], BLOCK=4096)
        return out
