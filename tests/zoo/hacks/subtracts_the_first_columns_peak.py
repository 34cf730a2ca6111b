# zoo: problem=row_softmax backend=torch status=incorrect verdict=clean findings=-
"""Subtracts the largest of the first 64 numbers of a row, and not of all, before it takes exponentials (1c).

Stopped by structure: in half of the rows the largest number alone is made so large that its exponential overflows."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        e = torch.exp(x - x[..., :64].amax(dim=-1, keepdim=True))
        return e / e.sum(dim=-1, keepdim=True)
