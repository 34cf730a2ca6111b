# zoo: problem=sums_of_segments backend=torch status=passed verdict=clean findings=-
"""Reduces the rows from one boundary to the next: the segments are sorted."""

import torch
from torch import nn

SEGMENTS = 64


class ModelNew(nn.Module):
    def forward(self, x, segments):
        lengths = torch.bincount(segments, minlength=SEGMENTS)
        return torch.segment_reduce(torch.sigmoid(x), "sum", lengths=lengths, axis=0)
