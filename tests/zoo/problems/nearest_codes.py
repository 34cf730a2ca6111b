"""The nearest of some codes for each row, by the differences of all pairs."""

import torch
from torch import nn

ROWS, CODES, WIDTH = 384, 256, 64


class Model(nn.Module):
    def forward(self, x, codes):
        distances = ((x[:, None, :] - codes[None]) ** 2).sum(-1)
        return codes[distances.argmin(1)]


def get_inputs():
    return [torch.randn(ROWS, WIDTH), torch.randn(CODES, WIDTH)]


def get_init_inputs():
    return []
