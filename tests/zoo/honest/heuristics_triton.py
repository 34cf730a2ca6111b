# zoo: problem=rms_norm backend=triton status=passed verdict=clean findings=-
"""Block sizes by triton.heuristics, a grid that asks the meta-parameters, and a cached helper."""

import functools

import torch
import triton
import triton.language as tl
from torch import nn


@functools.lru_cache(maxsize=None)
def warps_for(width: int) -> int:
    return max(1, min(16, width // 256))


@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["n"])})
@triton.jit
def rms_kernel(x_ptr, w_ptr, out_ptr, n, eps, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=0.0)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / n + eps)
    tl.store(out_ptr + row * n + cols, x * scale * tl.load(w_ptr + cols, mask=cols < n), mask=cols < n)


class ModelNew(nn.Module):
    def __init__(self, *, features, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x):
        out = torch.empty_like(x)
        rows, n = x.shape
        rms_kernel[lambda meta: (rows,)](x, self.weight, out, n, self.eps, num_warps=warps_for(n))
        return out
