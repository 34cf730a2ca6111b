# zoo: problem=linear_gelu backend=triton status=passed verdict=clean findings=-
"""Glue around a kernel: weights prepared by the library, a helper module, an assertion, a cast that changes nothing."""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _gelu(z):
    return 0.5 * z * (1.0 + tl.erf(z * 0.7071067811865476))


@triton.jit
def _fused_kernel(x_ptr, w_ptr, b_ptr, y_ptr, K, N, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, ROWS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((ROWS, BLOCK_N), dtype=tl.float32) + tl.load(b_ptr + cols)[None, :]
    for k in range(0, K, BLOCK_K):
        ks = k + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + rows[:, None] * K + ks[None, :])
        w = tl.load(w_ptr + ks[:, None] * N + cols[None, :])
        acc = tl.dot(x, w, acc, input_precision="ieee")
    tl.store(y_ptr + rows[:, None] * N + cols[None, :], _gelu(acc))


class FusedLinearGELU(nn.Module):
    def __init__(self, linear: nn.Linear):
        super().__init__()
        self.linear = linear

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        m, k = x.shape
        n = self.linear.out_features
        assert k % 64 == 0 and n % 128 == 0 and m % 32 == 0, "tile sizes"
        weight = self.linear.weight.t().contiguous().to(torch.float32)
        y = torch.zeros((m, n), dtype=torch.float32, device=x.device)
        grid = (math.ceil(m / 32), math.ceil(n / 128))
        _fused_kernel[grid](x.float(), weight, self.linear.bias, y, k, n, BLOCK_N=128, BLOCK_K=64, ROWS=32)
        return y.to(x.dtype)


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.fused = FusedLinearGELU(self.linear)

    def forward(self, x):
        return self.fused(x)
