"""A rotation and its inverse around a bias, as in blocks that are initialised orthogonally, and a transposed copy."""

import torch
from torch import nn

ROWS, WIDTH = 128, 192


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.turn = nn.Parameter(nn.init.orthogonal_(torch.empty(width, width)))
        self.shift = nn.Parameter(torch.randn(width))
        self.encode = nn.Parameter(torch.randn(width, width) * width**-0.5)
        self.decode = nn.Parameter(self.encode.detach().T.clone())

    def forward(self, x):
        turned = (x @ self.turn) @ self.turn.T + self.shift
        return torch.tanh(turned @ self.encode) + torch.sigmoid(turned @ self.decode.T)


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return [WIDTH]
