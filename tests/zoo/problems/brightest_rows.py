"""For each column the three rows with the largest numbers, and their places."""

import torch
from torch import nn

ROWS, COLUMNS, BEST = 200, 30, 3


class Model(nn.Module):
    def forward(self, x):
        found = x.topk(BEST, dim=0)
        return found.values, found.indices


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
