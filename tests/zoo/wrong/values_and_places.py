# zoo: problem=row_peak backend=torch status=incorrect verdict=clean findings=-
"""Forgets that the library's maximum along a dimension comes with its places: a pair, and no pose."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.max(x, dim=1)
