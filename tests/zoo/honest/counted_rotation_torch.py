# zoo: problem=counted_rotation backend=torch status=passed verdict=clean findings=-
"""Cosines and sines from the positions, and both halves written in place."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, positions):
        half = x.shape[-1] // 2
        rates = 10_000.0 ** (-torch.arange(half, device=x.device) / half)
        angles = positions[:, None].float() * rates
        cosines, sines = angles.cos(), angles.sin()
        first, second = x[..., :half], x[..., half:]
        out = torch.empty_like(x)
        torch.mul(first, cosines, out=out[..., :half]).addcmul_(second, sines, value=-1)
        torch.mul(first, sines, out=out[..., half:]).addcmul_(second, cosines)
        return out
