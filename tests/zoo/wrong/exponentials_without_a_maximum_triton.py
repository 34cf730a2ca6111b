# zoo: problem=shifted_exponentials backend=triton status=incorrect verdict=clean findings=-
"""Takes the exponentials as they are: beyond 88 they are infinite.

Stopped by structure: inputs are scaled until a number overflows that the reference subtracts a maximum from."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def blend(a_ptr, b_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + at, mask=at < n)
    b = tl.load(b_ptr + at, mask=at < n)
    ours, theirs = tl.exp(a), tl.exp(b)
    tl.store(out_ptr + at, (ours * a + theirs * b) / (ours + theirs), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, a, b):
        out = torch.empty_like(a)
        block = 65536 if a.device.type == "cpu" else 1024
        blend[(triton.cdiv(a.numel(), block),)](a, b, out, a.numel(), BLOCK=block)
        return out
