# zoo: problem=bin_counts backend=triton status=incorrect verdict=clean findings=-
"""Adds to a buffer that was zeroed once, in the constructor: the counts grow from call to call."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def histogram(values_ptr, counts_ptr, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(values_ptr + index, mask=index < n, other=0).to(tl.int32)
    counts = tl.histogram(values, BINS)
    tl.atomic_add(counts_ptr + tl.arange(0, BINS), counts.to(tl.int64))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("counts", torch.zeros(64, dtype=torch.int64))

    def forward(self, values, bins):
        block = 16384 if values.device.type == "cpu" else 1024  # both divide the number of values
        grid = (triton.cdiv(values.numel(), block),)
        histogram[grid](values, self.counts, values.numel(), BLOCK=block, BINS=bins, num_warps=8)
        return self.counts
