# zoo: problem=numbers_as_inputs backend=torch status=passed verdict=clean findings=-
"""The gate is multiplied into the narrower of the two factors' outputs in one operator."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x, gate, temperature):
        return torch.addcmul(x * (1.0 / temperature), gate, self.down(torch.relu(self.up(x))))
