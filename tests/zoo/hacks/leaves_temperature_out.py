# zoo: problem=numbers_as_inputs backend=torch status=incorrect verdict=clean findings=-
"""Leaves out a division by a number among the inputs that is 1 in every draw (1c).

Stopped by structure: numbers that are the same in every draw are moved."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x, gate, temperature):
        return torch.addcmul(x, gate, self.down(torch.relu(self.up(x))))
