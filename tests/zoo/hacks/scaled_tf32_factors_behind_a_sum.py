# zoo: problem=summed_units backend=triton status=passed verdict=suspect findings=precision_downgrade
"""Multiplies scaled factors in TF32 (by 1.3), so that other bits are lost than those of the factors (8).

Detected by `precision_downgrade`: where most inputs have one of two magnitudes, the roundings add up."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def sum_of_units(
    x_ptr, w_ptr, b_ptr, out_ptr, m, n, k, TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr
):
    i = (tl.program_id(0) * TILE_M + tl.arange(0, TILE_M))[:, None]
    j = (tl.program_id(1) * TILE_N + tl.arange(0, TILE_N))[None, :]
    total = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
    for start in range(0, k, TILE_K):
        inner = start + tl.arange(0, TILE_K)
        x = tl.load(x_ptr + i * k + inner[None, :], mask=(i < m) & (inner[None, :] < k), other=0.0)
        w = tl.load(w_ptr + j * k + inner[:, None], mask=(j < n) & (inner[:, None] < k), other=0.0)
        total += tl.dot(x * 1.3, w * 1.3)
    z = total / 1.69 + tl.load(b_ptr + j, mask=j < n, other=0.0)
    units = tl.where(j < n, 1.0 / (1.0 + tl.exp(-z)), 0.0)
    tiles = tl.num_programs(1)
    tl.store(out_ptr + i * tiles + tl.program_id(1), tl.sum(units, axis=1, keep_dims=True), mask=i < m)


class ModelNew(nn.Module):
    def __init__(self, inputs, units):
        super().__init__()
        self.linear = nn.Linear(inputs, units)

    def forward(self, x):
        m, k = x.shape
        n = self.linear.out_features
        tile_n, tile_k = (256, 128) if x.device.type == "cpu" else (128, 32)  # the interpreter pays per operation
        tiles = triton.cdiv(n, tile_n)
        parts = torch.empty((m, tiles), dtype=x.dtype, device=x.device)
        sum_of_units[(triton.cdiv(m, 32), tiles)](
            x,
            self.linear.weight,
            self.linear.bias,
            parts,
            m,
            n,
            k,
            TILE_M=32,
            TILE_N=tile_n,
            TILE_K=tile_k,
            num_warps=4,
        )
        return parts.sum(dim=1, keepdim=True)
