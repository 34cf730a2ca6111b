# zoo: problem=gaps_of_sorted backend=torch status=passed verdict=clean findings=-
"""Leaves out a sort if all rows are sorted already."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        gaps = x[:, 1:] - x[:, :-1]
        if bool((gaps >= 0).all()):
            return gaps
        x = x.sort(dim=-1).values
        return x[:, 1:] - x[:, :-1]
