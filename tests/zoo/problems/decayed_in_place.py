"""A decay of the input where it lies, as an optimiser's of its parameters: to scale is all there is to do."""

import torch
from torch import nn

ROWS, COLUMNS = 130, 250


class Model(nn.Module):
    def forward(self, x):
        return x.mul_(0.75)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
