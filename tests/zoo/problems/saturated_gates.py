"""Branches behind gates that a sigmoid closes where the model is constructed: all but one are far below zero."""

import torch
from torch import nn

ROWS, WIDTH, BRANCHES = 64, 128, 4


class Model(nn.Module):
    def __init__(self, width, branches):
        super().__init__()
        self.gate = nn.Parameter(torch.cat([torch.zeros(1), -6 * torch.rand(branches - 1) - 20]))
        self.mix = nn.ModuleList([nn.Linear(width, width) for _ in range(branches)])

    def forward(self, x):
        y = torch.sigmoid(x)
        for gate, mix in zip(torch.sigmoid(self.gate), self.mix):
            y = y + gate * torch.tanh(mix(x))
        return y


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return [WIDTH, BRANCHES]
