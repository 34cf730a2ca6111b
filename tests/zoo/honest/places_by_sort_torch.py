# zoo: problem=largest_places backend=torch status=passed verdict=clean findings=-
"""Sorts, with equal values in their order, which the library promises nobody: ties in every call."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        values, places = torch.sort(x, dim=-1, descending=True, stable=True)
        return values[:, :12].contiguous(), places[:, :12].contiguous()
