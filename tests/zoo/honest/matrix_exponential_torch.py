# zoo: problem=matrix_exponential backend=torch status=passed verdict=clean findings=-
"""All terms, from the last one inwards: sums come in another order."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, terms):
        super().__init__()
        self.terms = terms

    def forward(self, x):
        unit = torch.eye(x.shape[-1], device=x.device).expand_as(x)
        total = unit
        for step in range(self.terms - 1, 0, -1):
            total = torch.baddbmm(unit, x, total, alpha=1 / step)
        return total
