# zoo: problem=given_rotation backend=triton status=passed verdict=clean findings=-
"""A tiled product that rectifies as it stores."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def rectified_product(x_ptr, basis_ptr, out_ptr, rows, width, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    row, column = tl.program_id(0) * M + tl.arange(0, M), tl.program_id(1) * N + tl.arange(0, N)
    total = tl.zeros((M, N), dtype=tl.float32)
    for first in range(0, width, K):
        depth = first + tl.arange(0, K)
        x = tl.load(x_ptr + row[:, None] * width + depth[None, :], mask=(row < rows)[:, None], other=0.0)
        basis = tl.load(basis_ptr + depth[:, None] * width + column[None, :])
        total += tl.dot(x, basis, input_precision="ieee")
    tl.store(out_ptr + row[:, None] * width + column[None, :], tl.maximum(total, 0.0), mask=(row < rows)[:, None])


class ModelNew(nn.Module):
    def forward(self, x, basis):
        rows, width = x.shape
        out = torch.empty_like(x)
        rectified_product[(triton.cdiv(rows, 64), width // 64)](x, basis, out, rows, width, M=64, N=64, K=64)
        return out
