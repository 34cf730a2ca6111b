# zoo: problem=frozen_batch_norm backend=torch status=passed verdict=clean findings=-
"""Folds the frozen statistics into one scale and one shift, keeps them, and makes them anew when a buffer changes."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("variance", torch.ones(channels))
        self._folded = (None, None, None)

    def _fold(self):
        versions = tuple(t._version for t in (self.weight, self.bias, self.mean, self.variance))
        if self._folded[0] != versions:
            scale = self.weight * torch.rsqrt(self.variance + 1e-5)
            shape = (1, -1, 1, 1)
            self._folded = (versions, scale.view(shape), (self.bias - self.mean * scale).view(shape))
        return self._folded[1:]

    def forward(self, x):
        scale, shift = self._fold()
        return torch.addcmul(shift, x, scale)
