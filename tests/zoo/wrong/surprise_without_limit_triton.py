# zoo: problem=surprise_of_labels backend=triton status=incorrect verdict=clean findings=-
"""Takes the logarithm of a probability as it is: infinite for zero, which `rand` gives once in 16 million (1c)."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def surprise(chance_ptr, label_ptr, sum_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    chance = tl.load(chance_ptr + at, mask=at < count, other=0.5)
    label = tl.load(label_ptr + at, mask=at < count, other=0.0)
    found = label * tl.log(chance) + (1 - label) * tl.log(1 - chance)
    tl.store(sum_ptr + tl.program_id(0), -tl.sum(tl.where(at < count, found, 0.0), axis=0))


class ModelNew(nn.Module):
    def forward(self, chances, labels):
        programs = triton.cdiv(chances.numel(), 8192)
        sums = chances.new_empty(programs)
        surprise[(programs,)](chances, labels, sums, chances.numel(), BLOCK=8192)
        return sums.sum() / chances.numel()
