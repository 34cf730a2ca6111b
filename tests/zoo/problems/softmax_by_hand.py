"""Softmax over rows, written as five operators."""

import torch
from torch import nn

ROWS, COLUMNS = 300, 1000


class Model(nn.Module):
    def forward(self, x):
        powers = torch.exp(x - x.amax(dim=-1, keepdim=True))
        return powers / powers.sum(dim=-1, keepdim=True)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
