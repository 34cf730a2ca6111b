# zoo: problem=weighted_rows backend=torch status=incorrect verdict=clean findings=-
"""Has its weight under another name, so that the problem's finds no place; the message names it."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inner, columns):
        super().__init__()
        self.matrix = nn.Parameter(torch.zeros(columns, inner))

    def forward(self, x):
        return x @ self.matrix.T
