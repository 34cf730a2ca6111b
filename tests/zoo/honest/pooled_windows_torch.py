# zoo: problem=pooled_windows backend=torch status=passed verdict=clean findings=-
"""The largest of each column of a window, then of these."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        padded = nn.functional.pad(x, (1, 1, 1, 1), value=float("-inf"))
        return padded.unfold(2, 3, 2).amax(dim=4).unfold(3, 3, 2).amax(dim=4)
