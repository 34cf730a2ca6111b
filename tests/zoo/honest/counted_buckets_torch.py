# zoo: problem=bucket_numbers backend=torch status=passed verdict=clean findings=-
"""Counts the edges below each value, where the library searches: the same only as long as edges are sorted."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, edges):
        return (edges[None, :] < x[:, None]).sum(dim=1)
