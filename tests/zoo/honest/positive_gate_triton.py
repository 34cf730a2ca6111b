# zoo: problem=positive_gate backend=triton status=passed verdict=clean findings=-
"""All in one kernel.  The gate's own size is not computed: its root is not defined for negative numbers."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def gated(x_ptr, gate_ptr, out_ptr, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + index, mask=index < n)
    gate = tl.load(gate_ptr + index, mask=index < n)
    y = tl.where(x > 0, x, tl.exp(tl.minimum(0.2 * x, 0.0)) - 1)
    tl.store(out_ptr + index, y * gate + tl.sqrt(gate), mask=index < n)


class ModelNew(nn.Module):
    def forward(self, x, gate):
        out = torch.empty_like(x)
        block = 16384 if x.device.type == "cpu" else 1024
        gated[(triton.cdiv(x.numel(), block),)](x, gate, out, x.numel(), BLOCK=block)
        return out
