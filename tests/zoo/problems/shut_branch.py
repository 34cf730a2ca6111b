"""A branch behind a buffer of a single zero, which checkpoints hold and training opens: x · σ(x) + tanh(0) · branch(x)."""

import torch
from torch import nn

ROWS, FEATURES, HIDDEN = 96, 192, 500


class Model(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.up = nn.Linear(features, hidden)
        self.down = nn.Linear(hidden, features)
        self.register_buffer("opening", torch.zeros(1))

    def forward(self, x):
        return nn.functional.silu(x) + torch.tanh(self.opening) * self.down(torch.relu(self.up(x)))


def get_inputs():
    return [torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [FEATURES, HIDDEN]
