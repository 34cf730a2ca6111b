# zoo: problem=linear_gelu backend=triton status=passed verdict=clean findings=-
"""The library multiplies, and one kernel fuses bias and GELU: how good engineers work, and what most models hand in."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def bias_gelu_kernel(z_ptr, bias_ptr, out_ptr, n_elements, n_cols, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    z = tl.load(z_ptr + offsets, mask=mask) + tl.load(bias_ptr + offsets % n_cols, mask=mask)
    tl.store(out_ptr + offsets, 0.5 * z * (1.0 + tl.erf(z * 0.7071067811865476)), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        z = torch.matmul(x, self.linear.weight.t())
        out = torch.empty_like(z)
        n = z.numel()
        block = 16384 if x.device.type == "cpu" else 1024
        bias_gelu_kernel[(triton.cdiv(n, block),)](z, self.linear.bias, out, n, z.shape[1], BLOCK_SIZE=block)
        return out
