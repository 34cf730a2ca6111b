# zoo: problem=four_bit_blocks backend=torch status=incorrect verdict=clean findings=-
"""One bound between two levels is off: 2.4 in place of 2.5."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        blocks = x.reshape(-1, 16)
        scale = (blocks.abs().amax(dim=1, keepdim=True) / 6).to(torch.float8_e4m3fn).float().clamp(min=2**-9)
        bounds = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.4, 3.5, 5.0])
        levels = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
        size = (blocks / scale).abs()
        return (blocks.sign() * levels[torch.bucketize(size, bounds)] * scale).reshape(x.shape)
