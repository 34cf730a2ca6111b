# zoo: problem=spectral_layer backend=torch status=passed verdict=clean findings=-
"""Iterates with the product of the matrix and its transpose, in every call."""

import torch
from torch import nn

STEPS = 100


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.matrix = nn.Parameter(torch.empty(width, width))

    def forward(self, x):
        square = self.matrix @ self.matrix.T
        left = torch.ones(len(self.matrix), device=x.device)
        for _ in range(STEPS):
            left = square @ left
            left = left / left.norm()
        return x @ self.matrix.T / (self.matrix.T @ left).norm()
