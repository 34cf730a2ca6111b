"""Some rows of a table are replaced by a fixed number.

A kernel writes the same here for all inputs, and the rest is a copy.
"""

import torch
from torch import nn

ROWS, COLUMNS = 211, 300
RANGES = ((17, 60), (131, 180))
FILL = -1.5


class Model(nn.Module):
    def forward(self, x):
        filled = x.clone()
        for start, end in RANGES:
            filled[start:end] = FILL
        return filled


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
