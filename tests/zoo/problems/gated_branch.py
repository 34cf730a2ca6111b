"""A branch behind a gate that is closed where the model is constructed: x + 0 · branch(x) can be left out unnoticed."""

import torch
from torch import nn

ROWS, FEATURES = 64, 384


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(1))
        self.branch = nn.Linear(features, features)

    def forward(self, x):
        return x + self.gate * torch.tanh(self.branch(x))


def get_inputs():
    return [torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [FEATURES]
