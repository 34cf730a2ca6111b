# zoo: problem=young_layers backend=torch status=passed verdict=suspect findings=ignores_weights
"""Leaves out a layer whose weights are so small at first that it changes less than a rounding (1c).

Detected: a call with other weights; weights that are all small count among those that training changes."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.Parameter(torch.empty(width, width))
        self.layer = nn.Parameter(torch.empty(width, width))

    def forward(self, x):
        return torch.tanh(x @ self.mix)
