"""A value for each number by the bin that it lies in; edges and values of the bins are learned."""

import torch
from torch import nn

ROWS, WIDTH, BINS = 64, 512, 64


class Model(nn.Module):
    def __init__(self, bins):
        super().__init__()
        self.edges = nn.Parameter(torch.linspace(-3.0, 3.0, bins - 1))
        self.values = nn.Parameter(torch.randn(bins))

    def forward(self, x):
        return self.values[torch.bucketize(x, self.edges)]


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return [BINS]
