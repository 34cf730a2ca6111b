"""A function of each number, and beside it the numbers of a row in order, which a constant of the code makes faint."""

import torch
from torch import nn

ROWS, WIDTH = 200, 900


class Model(nn.Module):
    def forward(self, x):
        return torch.tanh(x) + 3e-7 * torch.sort(x, dim=1).values


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return []
