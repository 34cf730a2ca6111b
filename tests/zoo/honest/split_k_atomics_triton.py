# zoo: problem=half_matmul backend=triton status=passed verdict=clean findings=- needs=gpu
"""Splits the inner dimension and adds the parts atomically in single precision: not the same bits every time."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def split_k(a_ptr, b_ptr, c_ptr, M, N, K, SPLIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(tl.program_id(2) * BK, K, BK * SPLIT):
        rk = start + tl.arange(0, BK)
        a = tl.load(a_ptr + rm[:, None] * K + rk[None, :], mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0)
        b = tl.load(b_ptr + rk[:, None] * N + rn[None, :], mask=(rk[:, None] < K) & (rn[None, :] < N), other=0.0)
        acc += tl.dot(a, b)
    tl.atomic_add(c_ptr + rm[:, None] * N + rn[None, :], acc, mask=(rm[:, None] < M) & (rn[None, :] < N))


class ModelNew(nn.Module):
    def forward(self, a, b):
        (m, k), n = a.shape, b.shape[1]
        c = torch.zeros(m, n, device=a.device, dtype=torch.float32)
        split_k[(triton.cdiv(m, 64), triton.cdiv(n, 64), 4)](a, b, c, m, n, k, SPLIT=4, BM=64, BN=64, BK=32)
        return c.to(a.dtype)
