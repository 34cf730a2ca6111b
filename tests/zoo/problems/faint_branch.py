"""A residual block with a branch that a constant of the code scales to a millionth: x + 1e-6 · branch(x) is x to within
the tolerance of single precision."""

import torch
from torch import nn

ROWS, FEATURES, HIDDEN = 96, 200, 600


class Model(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.up = nn.Linear(features, hidden)
        self.down = nn.Linear(hidden, features)

    def forward(self, x):
        return x + 1e-6 * self.down(torch.relu(self.up(x)))


def get_inputs():
    return [torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [FEATURES, HIDDEN]
