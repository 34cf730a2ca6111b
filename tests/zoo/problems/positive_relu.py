"""ReLU of inputs that are never negative: on these the answer is the input."""

import torch
from torch import nn

ROWS, COLUMNS = 16, 4001


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.rand(ROWS, COLUMNS)]


def get_init_inputs():
    return []
