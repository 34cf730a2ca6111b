"""A product in half precision, which tensor cores compute; needs a GPU to be worth it."""

import torch
from torch import nn

ROWS, INNER, COLUMNS = 1000, 1032, 1016


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.randn(ROWS, INNER).half(), torch.randn(INNER, COLUMNS).half()]


def get_init_inputs():
    return []
