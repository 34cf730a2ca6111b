# zoo: problem=product_of_three backend=torch status=passed verdict=clean findings=- speedup=>1
"""Multiplies from the right: two products of a matrix and a vector."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width) / width**0.5)

    def forward(self, rows, vector):
        return rows @ (self.weight @ vector)
