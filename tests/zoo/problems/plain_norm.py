"""Layer normalisation as it is constructed: weights of one and biases of zero, which can be left out unnoticed."""

import torch
from torch import nn

ROWS, FEATURES = 64, 768


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [FEATURES]
