# zoo: problem=centred_max backend=torch status=passed verdict=clean findings=-
"""Computes what is always 0: that the problem is degenerate is said of the problem, because NaN comes out as NaN."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        largest = torch.amax(x, dim=1, keepdim=True)
        return nn.functional.gelu(largest - torch.mean(largest, dim=1, keepdim=True))
