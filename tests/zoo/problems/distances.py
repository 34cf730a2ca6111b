"""Distances between all rows, by their products: that of a row from itself is zero, or NaN, by rounding."""

import torch
from torch import nn

ROWS, COLUMNS = 192, 100


class Model(nn.Module):
    def forward(self, x):
        squares = x.square().sum(dim=1)
        return torch.sqrt(squares[:, None] + squares - 2 * x @ x.mT)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
