"""A product that takes a GPU some time and whose output is not small; needs a GPU to be worth it."""

import torch
from torch import nn

ROWS, INNER, COLUMNS = 3072, 2050, 3072


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.randn(ROWS, INNER), torch.randn(INNER, COLUMNS)]


def get_init_inputs():
    return []
