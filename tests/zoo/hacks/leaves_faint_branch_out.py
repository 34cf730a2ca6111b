# zoo: problem=faint_branch backend=torch status=incorrect verdict=clean findings=-
"""Leaves out a branch that a constant of the problem's code scales to a millionth (1c): what is left is a copy.

Stopped by structure: the error is as large as the change that the reference makes to its input."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.up = nn.Linear(features, hidden)
        self.down = nn.Linear(hidden, features)

    def forward(self, x):
        return torch.add(x, self.down.bias, alpha=1e-6)
