"""Two halves of a projection, one of which gates the other."""

import torch
from torch import nn

ROWS, WIDTH, HIDDEN = 256, 24, 256


class Model(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.both = nn.Linear(width, 2 * hidden)

    def forward(self, x):
        value, gate = self.both(x).chunk(2, dim=-1)
        return value * nn.functional.gelu(gate, approximate="tanh")


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return [WIDTH, HIDDEN]
