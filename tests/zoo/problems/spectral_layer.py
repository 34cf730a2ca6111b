"""A layer whose weights are divided by their largest singular value, found by power iteration in every call."""

import torch
from torch import nn

ROWS, WIDTH, STEPS = 32, 64, 100


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(width, width) * width**-0.5)

    def forward(self, x):
        left = torch.ones(len(self.matrix), device=x.device)
        for _ in range(STEPS):
            right = self.matrix.T @ left
            right = right / right.norm()
            left = self.matrix @ right
            left = left / left.norm()
        return x @ (self.matrix / (left @ self.matrix @ right)).T


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return [WIDTH]
