# zoo: problem=binary_mask backend=torch status=incorrect verdict=clean findings=-
"""Multiplies by a mask that the reference compares with a half.

Stopped by structure: the comparison gives the mask back as it is drawn, so that some calls have other numbers in it, on
the same side of a half."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, keep):
        return (x * keep).sum(dim=1) / keep.sum(dim=1).clamp(min=1.0)
