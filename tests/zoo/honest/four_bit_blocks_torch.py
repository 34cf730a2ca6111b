# zoo: problem=four_bit_blocks backend=torch status=passed verdict=clean findings=-
"""Looks levels up, and multiplies by the reciprocal of the scale."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        blocks = x.reshape(-1, 16)
        scale = torch.clamp((blocks.abs().amax(dim=1, keepdim=True) * (1 / 6)).to(torch.float8_e4m3fn).float(), min=2**-9)
        bounds = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0])
        levels = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
        size = (blocks * (1 / scale)).abs()
        return (blocks.sign() * levels[torch.bucketize(size, bounds)] * scale).reshape(x.shape)
