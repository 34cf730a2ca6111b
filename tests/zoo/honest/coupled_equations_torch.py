# zoo: problem=coupled_equations backend=torch status=passed verdict=clean findings=-
"""All sweeps; the division by the diagonal is done once."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, sweeps):
        super().__init__()
        self.sweeps = sweeps

    def forward(self, x, sides):
        diagonal = x.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)
        rest = torch.eye(x.shape[-1], device=x.device) - x / diagonal
        first = sides / diagonal
        found = first
        for _ in range(self.sweeps - 1):
            found = torch.baddbmm(first, rest, found)
        return found
