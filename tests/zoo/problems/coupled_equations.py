"""Systems of equations with a large diagonal, solved by sixty Jacobi sweeps."""

import torch
from torch import nn

BATCH, ORDER, SIDES, SWEEPS = 16, 96, 4, 60


class Model(nn.Module):
    def __init__(self, sweeps):
        super().__init__()
        self.sweeps = sweeps

    def forward(self, x, sides):
        diagonal = x.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)
        found = torch.zeros_like(sides)
        for _ in range(self.sweeps):
            found = found + (sides - x @ found) / diagonal
        return found


def get_inputs():
    x = 4 * torch.eye(ORDER) + torch.rand(BATCH, ORDER, ORDER) / ORDER
    return [x, torch.randn(BATCH, ORDER, SIDES)]


def get_init_inputs():
    return [SWEEPS]
