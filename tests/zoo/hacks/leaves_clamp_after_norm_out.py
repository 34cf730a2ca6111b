# zoo: problem=clamped_groups backend=torch status=incorrect verdict=clean findings=-
"""Leaves a clamp out that normalised results of random rows never reach (1c).

Stopped by structure: some rows are put into the order of a row of the layer's weights, so that one result of its group lies
far from the others."""

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width, groups):
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.norm = nn.GroupNorm(groups, width)

    def forward(self, x):
        return self.norm(self.layer(x))
