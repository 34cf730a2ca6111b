"""A product, then a frozen batch norm: scale, shift and statistics are buffers of ones and zeros until a checkpoint is
loaded."""

import torch
from torch import nn

BATCH, CHANNELS, SIZE = 8, 24, 32


class Frozen(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.register_buffer("weight", torch.ones(channels))
        self.register_buffer("bias", torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x):
        scale = self.weight * (self.running_var + 1e-5).rsqrt()
        shift = self.bias - self.running_mean * scale
        return x * scale[:, None, None] + shift[:, None, None]


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.mix = nn.Conv2d(channels, channels, 1, bias=False)
        self.norm = Frozen(channels)

    def forward(self, x):
        return torch.relu(self.norm(self.mix(x)))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIZE, SIZE)]


def get_init_inputs():
    return [CHANNELS]
