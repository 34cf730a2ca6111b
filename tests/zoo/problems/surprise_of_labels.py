"""Binary cross entropy of probabilities, whose logarithms are −100 at least."""

import torch
from torch import nn

ROWS, COLUMNS = 61, 300


class Model(nn.Module):
    def forward(self, chances, labels):
        return nn.functional.binary_cross_entropy(chances, labels)


def get_inputs():
    return [torch.rand(ROWS, COLUMNS), torch.rand(ROWS, COLUMNS)]


def get_init_inputs():
    return []
