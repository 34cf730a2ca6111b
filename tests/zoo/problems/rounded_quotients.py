"""Quotients rounded downwards, of numbers that are never negative in `get_inputs`."""

import torch
from torch import nn

ROWS, WIDTH = 300, 1000


class Model(nn.Module):
    def forward(self, x):
        return torch.div(x, 3.0, rounding_mode="floor")


def get_inputs():
    return [100 * torch.rand(ROWS, WIDTH)]


def get_init_inputs():
    return []
