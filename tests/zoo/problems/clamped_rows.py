"""A clamp at limits that the problem's own inputs never reach: on those the answer is the input as it is."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.clamp(x, -50.0, 50.0)


def get_inputs():
    return [torch.randn(117, 300)]


def get_init_inputs():
    return []
