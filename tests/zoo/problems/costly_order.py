"""The product of two square matrices with a narrow one, in the costly order, and its tanh."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, a, b, c):
        return torch.tanh((a @ b) @ c)


def get_inputs():
    return [torch.randn(250, 250) / 16, torch.randn(250, 250) / 16, torch.randn(250, 30)]


def get_init_inputs():
    return []
