"""Sines and cosines of positions times rates, and no inputs at all: every call has the same answer."""

import torch
from torch import nn

LENGTH, WIDTH, BASE = 600, 96, 10_000.0


class Model(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        self.length = length
        self.rates = nn.Parameter(BASE ** (-torch.arange(0, width, 2) / width))

    def forward(self):
        angles = torch.arange(self.length, device=self.rates.device)[:, None] * self.rates
        return torch.cat((angles.sin(), angles.cos()), dim=-1)


def get_inputs():
    return []


def get_init_inputs():
    return [LENGTH, WIDTH]
