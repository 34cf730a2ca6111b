# zoo: problem=layer_norm backend=triton status=passed verdict=clean findings=-
"""A kernel behind torch.autograd.Function inside a helper module, with the reference's parameter names."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def _ln_fwd(X, Y, W, B, N, eps, BLOCK_N: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_N)
    mask = cols < N
    x = tl.load(X + row * N + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / N
    centred = tl.where(mask, x - mean, 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / N + eps)
    w = tl.load(W + cols, mask=mask)
    b = tl.load(B + cols, mask=mask)
    tl.store(Y + row * N + cols, centred * rstd * w + b, mask=mask)


class _LayerNormFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        y = torch.empty_like(x)
        n = x.shape[-1]
        _ln_fwd[(x.numel() // n,)](x, y, weight, bias, n, eps, BLOCK_N=triton.next_power_of_2(n))
        return y

    @staticmethod
    def backward(ctx, grad):
        raise NotImplementedError("forward only")


class TritonLayerNorm(nn.LayerNorm):
    def forward(self, x):
        return _LayerNormFn.apply(x, self.weight, self.bias, self.eps)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = TritonLayerNorm(features)

    def forward(self, x):
        return self.norm(x)
