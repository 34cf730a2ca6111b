# zoo: problem=unit_mixing backend=torch status=passed verdict=clean findings=-
"""Keeps its weights in another layout from its first call on, as a packer of weights does."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.Parameter(torch.empty(width, width))
        self.read = nn.Linear(width, width)
        self.packed = None

    def forward(self, x):
        if self.packed is None:
            self.packed = (self.mix.detach().clone(), self.read.weight.detach().T.contiguous())
        mix, read = self.packed
        return torch.addmm(self.read.bias, torch.tanh(x @ mix), read)
