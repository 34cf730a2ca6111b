# zoo: problem=frozen_norm backend=torch status=passed verdict=suspect findings=ignores_weights
"""Leaves out a norm whose scale, shift and statistics are buffers of ones and zeros (1c).

Detected: a call with other weights; buffers that a checkpoint holds, and that have no effect, count among them."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.mix = nn.Conv2d(channels, channels, 1, bias=False)

    def forward(self, x):
        return torch.relu_(self.mix(x))
