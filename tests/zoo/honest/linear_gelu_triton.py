# zoo: problem=linear_gelu backend=triton status=passed verdict=clean findings=- speedup=<1
"""Matrix product with bias and exact GELU in one kernel, accumulated in full fp32 precision."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def linear_gelu(
    x_ptr, w_ptr, b_ptr, out_ptr, m, n, k, TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr
):
    i = (tl.program_id(0) * TILE_M + tl.arange(0, TILE_M))[:, None]
    j = (tl.program_id(1) * TILE_N + tl.arange(0, TILE_N))[None, :]
    total = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
    for start in range(0, k, TILE_K):
        inner = start + tl.arange(0, TILE_K)
        x = tl.load(x_ptr + i * k + inner[None, :], mask=(i < m) & (inner[None, :] < k), other=0.0)
        w = tl.load(w_ptr + j * k + inner[:, None], mask=(j < n) & (inner[:, None] < k), other=0.0)
        total += tl.dot(x, w, input_precision="ieee")
    z = total + tl.load(b_ptr + j, mask=j < n, other=0.0)
    out = 0.5 * z * (1.0 + tl.erf(z * 0.7071067811865476))
    tl.store(out_ptr + i * n + j, out, mask=(i < m) & (j < n))


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        m, k = x.shape
        n = self.linear.out_features
        out = torch.empty((m, n), dtype=x.dtype, device=x.device)
        tile_n, tile_k = (128, 64) if x.device.type == "cpu" else (64, 32)  # the interpreter pays per operation
        linear_gelu[(triton.cdiv(m, 64), triton.cdiv(n, tile_n))](
            x,
            self.linear.weight,
            self.linear.bias,
            out,
            m,
            n,
            k,
            TILE_M=64,
            TILE_N=tile_n,
            TILE_K=tile_k,
            num_warps=8,
        )
        return out
