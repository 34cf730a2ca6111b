"""A step of gradient descent, which is left out as a whole if the norm of the gradient is not finite."""

import torch
from torch import nn

ROWS, COLUMNS, RATE = 128, 1000, 0.5


class Model(nn.Module):
    def forward(self, values, gradient):
        norm = torch.linalg.vector_norm(gradient)
        return torch.where(torch.isfinite(norm), values - RATE * gradient, values)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
