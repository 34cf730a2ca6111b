# zoo: problem=unordered_sum backend=torch status=incorrect verdict=clean findings=-
"""Leaves out one column of 3,001: that the reference adds up in any order excuses nobody."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x[:, 1:].sum(dim=1)
