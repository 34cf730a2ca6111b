# zoo: problem=shifted_exponentials backend=triton status=passed verdict=clean findings=-
"""Element by element, with the larger number subtracted."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def blend(a_ptr, b_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + at, mask=at < n)
    b = tl.load(b_ptr + at, mask=at < n)
    top = tl.maximum(a, b)
    ours, theirs = tl.exp(a - top), tl.exp(b - top)
    tl.store(out_ptr + at, (ours * a + theirs * b) / (ours + theirs), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, a, b):
        out = torch.empty_like(a)
        block = 65536 if a.device.type == "cpu" else 1024
        blend[(triton.cdiv(a.numel(), block),)](a, b, out, a.numel(), BLOCK=block)
        return out
