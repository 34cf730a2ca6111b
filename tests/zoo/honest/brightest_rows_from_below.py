# zoo: problem=brightest_rows backend=torch status=passed verdict=clean findings=-
"""Counts the last of equal rows first: right, because which of them is found first is nowhere said."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        values, places = x.flip(0).topk(3, dim=0)
        return values, x.shape[0] - 1 - places
