"""Shifted ReLU in bfloat16."""

import torch
from torch import nn

N = 20_000


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x + 0.5)


def get_inputs():
    return [torch.randn(N).bfloat16()]


def get_init_inputs():
    return []
