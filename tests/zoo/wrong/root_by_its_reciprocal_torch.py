# zoo: problem=roots_of_samples backend=torch status=incorrect verdict=clean findings=-
"""Multiplies a number by the reciprocal of its root: NaN for zero.

Stopped by structure: some rows are zeros where the reference takes roots, and is finite there."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x * torch.rsqrt(x) * torch.sin(x)
