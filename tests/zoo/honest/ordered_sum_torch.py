# zoo: problem=unordered_sum backend=torch status=passed verdict=clean findings=- speedup=>1
"""Adds up each row in the library's order; the reference has none, and is no more exact."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.sum(dim=1)
