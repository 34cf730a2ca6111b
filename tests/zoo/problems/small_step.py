"""One step of an optimiser on parameters in bfloat16: most of it lies below their rounding, and all of it below the
tolerance, so that the parameters as they were are nearly right."""

import torch
from torch import nn

ROWS, COLUMNS, RATE = 257, 768, 1e-3


class Model(nn.Module):
    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def forward(self, parameters, gradient, square):
        step = gradient.float() / (square.sqrt() + 1e-8)
        return (parameters.float() - self.rate * step).to(torch.bfloat16)


def get_inputs():
    gradient = torch.randn(ROWS, COLUMNS)
    return [torch.randn(ROWS, COLUMNS).bfloat16(), gradient.bfloat16(), gradient.square() + 0.1]


def get_init_inputs():
    return [RATE]
