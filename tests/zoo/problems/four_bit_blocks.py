"""Blocks of sixteen four-bit floats with a scale of eight bits, and back (NVFP4)."""

import torch
from torch import nn

ROWS, COLUMNS = 256, 192
STEPS = ((0.25, 0.5), (0.75, 1.0), (1.25, 1.5), (1.75, 2.0), (2.5, 3.0), (3.5, 4.0), (5.0, 6.0))


class Model(nn.Module):
    def forward(self, x):
        blocks = x.reshape(-1, 16)
        scale = (blocks.abs().amax(dim=1, keepdim=True) / 6).to(torch.float8_e4m3fn).float().clamp(min=2**-9)
        size, level = (blocks / scale).abs(), torch.zeros_like(blocks)
        for bound, value in STEPS:
            level = torch.where(size > bound, value, level)
        return (blocks.sign() * level * scale).reshape(x.shape)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
