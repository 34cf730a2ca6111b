# zoo: problem=rms_norm backend=triton status=passed verdict=clean findings=-
"""Returns early for an empty input, and makes its inputs contiguous, which they are."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def rms_kernel(x_ptr, w_ptr, out_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    x = tl.load(x_ptr + row * n + cols, mask=mask, other=0.0)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / n + eps)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0)
    tl.store(out_ptr + row * n + cols, x * scale * w, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, *, features, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x):
        if x.numel() == 0:
            return torch.empty_like(x)
        x = x.contiguous()
        out = torch.empty_like(x)
        rms_kernel[(x.shape[0],)](x, self.weight.contiguous(), out, x.shape[1], self.eps, BLOCK=512)
        return out
