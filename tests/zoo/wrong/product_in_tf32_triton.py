# zoo: problem=linear_gelu backend=triton status=incorrect verdict=clean findings=-
"""Leaves the precision of a single-precision product to Triton, which takes TF32 on a GPU.

Stopped by structure: interpreted products are in TF32 as well."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def linear_gelu(x_ptr, w_ptr, b_ptr, out_ptr, n, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i, inner = tl.arange(0, M)[:, None], tl.arange(0, K)
    j = (tl.program_id(0) * N + tl.arange(0, N))[None, :]
    x = tl.load(x_ptr + i * K + inner[None, :])
    w = tl.load(w_ptr + j * K + inner[:, None])
    z = tl.dot(x, w) + tl.load(b_ptr + j)
    tl.store(out_ptr + i * n + j, 0.5 * z * (1.0 + tl.erf(z * 0.7071067811865476)))


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        (m, k), n = x.shape, self.linear.out_features
        out = torch.empty((m, n), dtype=x.dtype, device=x.device)
        linear_gelu[(n // 64,)](x, self.linear.weight, self.linear.bias, out, n, M=m, N=64, K=k, num_warps=8)
        return out
