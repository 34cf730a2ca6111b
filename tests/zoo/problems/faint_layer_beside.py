"""A layer, and beside it another one that a constant of the code scales to less than single precision is asked to show."""

import torch
from torch import nn

ROWS, FEATURES, HIDDEN = 96, 200, 600


class Model(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.first = nn.Linear(features, 50)
        self.up = nn.Linear(features, hidden)
        self.down = nn.Linear(hidden, 50)

    def forward(self, x):
        return self.first(x) + 1e-5 * self.down(torch.tanh(self.up(x)))


def get_inputs():
    return [torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [FEATURES, HIDDEN]
