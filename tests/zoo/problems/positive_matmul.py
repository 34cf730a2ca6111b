"""A product of two matrices of positive numbers with a large inner size, as KernelBench draws them."""

import torch
from torch import nn

ROWS, INNER, COLUMNS = 128, 4096, 96


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.rand(ROWS, INNER), torch.rand(INNER, COLUMNS)]


def get_init_inputs():
    return []
