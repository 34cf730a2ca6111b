# zoo: problem=scaled_layer backend=torch status=incorrect verdict=clean findings=-
"""Leaves out the layer, whose scale of 1e-6 hides it (1c).

Stopped by structure: the answer is right as a whole, and lacks the small change that the reference makes to its input."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(1e-6 * torch.ones(width))
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x.clone()
