"""A residual layer whose weights begin faint, behind a mixing whose columns begin as copies of a few."""

import torch
from torch import nn

ROWS, WIDTH, COPIES = 128, 256, 4


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.Parameter((torch.randn(width, width // COPIES) * width**-0.5).repeat(1, COPIES))
        self.layer = nn.Parameter(1e-5 * torch.randn(width, width))

    def forward(self, x):
        mixed = torch.tanh(x @ self.mix)
        return mixed + 0.01 * torch.tanh(mixed @ self.layer)


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return [WIDTH]
