# zoo: problem=linear_gelu backend=triton status=passed verdict=clean findings=- speedup=<1
"""The product by the library, and the exact GELU by NVIDIA's mathematics (libdevice), which the interpreter is given."""

import torch
import triton
import triton.language as tl
from torch import nn
from triton.language.extra import libdevice


@triton.jit
def gelu(z_ptr, out_ptr, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n
    z = tl.load(z_ptr + index, mask=inside, other=0.0)
    tl.store(out_ptr + index, 0.5 * z * (1.0 + libdevice.erf(z * 0.7071067811865476)), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        z = self.linear(x)
        out = torch.empty_like(z)
        block = 16384 if x.device.type == "cpu" else 1024
        gelu[(triton.cdiv(z.numel(), block),)](z, out, z.numel(), BLOCK=block, num_warps=8)
        return out
