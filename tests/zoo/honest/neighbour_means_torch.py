# zoo: problem=neighbour_means backend=torch status=passed verdict=clean findings=-
"""Divides the sums of rows before the product, which a graph with few edges makes no difference to."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, adjacency):
        shares = adjacency / adjacency.sum(1, keepdim=True).clamp_(min=1)
        return torch.relu_(shares @ x)
