# zoo: problem=distances backend=torch status=passed verdict=clean findings=-
"""Adds up in another order, so that other elements of the diagonal are NaN."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        squares = (x * x).sum(dim=1)
        return torch.sqrt(torch.addmm(squares[:, None] + squares, x, x.mT, alpha=-2))
