"""Mean squared error: an output of one number, of which the mean is the number itself."""

import torch
from torch import nn

ROWS, COLUMNS = 96, 301


class Model(nn.Module):
    def forward(self, predictions, targets):
        return torch.mean((predictions - targets) ** 2)


def get_inputs():
    return [torch.rand(ROWS, COLUMNS), torch.rand(ROWS, COLUMNS)]


def get_init_inputs():
    return []
