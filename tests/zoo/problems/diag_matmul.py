"""Product of a diagonal matrix with a thin one, the long way: the diagonal matrix is built and multiplied."""

import torch
from torch import nn

N, M = 4096, 16


class Model(nn.Module):
    def forward(self, diagonal, b):
        return torch.diag(diagonal) @ b


def get_inputs():
    return [torch.randn(N), torch.randn(N, M)]


def get_init_inputs():
    return []
