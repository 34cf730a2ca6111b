# zoo: problem=orthogonal_mixing backend=torch status=passed verdict=suspect findings=ignores_weights
"""Leaves out a rotation and its inverse, which cancel until the weights are trained (1c).

Detected: a call with other weights; a matrix with orthonormal rows counts among those that training changes."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.turn = nn.Parameter(torch.empty(width, width))
        self.shift = nn.Parameter(torch.empty(width))
        self.encode = nn.Parameter(torch.empty(width, width))
        self.decode = nn.Parameter(torch.empty(width, width))

    def forward(self, x):
        turned = x + self.shift
        return torch.tanh(turned @ self.encode) + torch.sigmoid(turned @ self.decode.T)
