# zoo: problem=clustered_points backend=torch status=passed verdict=clean findings=-
"""Distances without the part that all centres share; sums by `index_add`."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        centres, ones = x[:12], torch.ones_like(x[:, 0])
        for _ in range(self.rounds):
            far = (centres * centres).sum(dim=1) - 2 * x @ centres.T
            nearest = far.argmin(dim=1)
            sums = torch.zeros_like(centres).index_add(0, nearest, x)
            sizes = torch.zeros_like(centres[:, 0]).index_add(0, nearest, ones)
            centres = sums / sizes.clamp(min=1)[:, None]
        return centres
