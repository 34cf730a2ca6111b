# zoo: problem=gated_branch backend=triton status=passed verdict=clean findings=-
"""The gated branch with its end fused, whatever the gate is."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def open_gate(x_ptr, z_ptr, gate_ptr, out_ptr, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n
    x = tl.load(x_ptr + index, mask=inside)
    z = tl.load(z_ptr + index, mask=inside)
    tanh = 2.0 / (1.0 + tl.exp(-2.0 * z)) - 1.0
    tl.store(out_ptr + index, x + tl.load(gate_ptr) * tanh, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(1))
        self.branch = nn.Linear(features, features)

    def forward(self, x):
        z, out = self.branch(x), torch.empty_like(x)
        block = 16384 if x.device.type == "cpu" else 1024
        open_gate[(triton.cdiv(x.numel(), block),)](x, z, self.gate, out, x.numel(), BLOCK=block, num_warps=8)
        return out
