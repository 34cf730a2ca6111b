# zoo: problem=signed_mean backend=torch status=passed verdict=clean findings=-
"""Sums row by row: where the mean nearly cancels, its rounding error is large against it, as the reference's is."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.sum(1).sum() / x.numel()
