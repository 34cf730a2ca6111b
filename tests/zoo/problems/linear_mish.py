"""A linear layer with few inputs, and an activation written as three operators."""

import torch
from torch import nn

BATCH, INPUTS, OUTPUTS = 512, 24, 400


class Model(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        nn.init.normal_(self.linear.bias, std=0.5)

    def forward(self, x):
        x = self.linear(x)
        return x * torch.tanh(nn.functional.softplus(x))


def get_inputs():
    return [2 * torch.randn(BATCH, INPUTS)]


def get_init_inputs():
    return [INPUTS, OUTPUTS]
