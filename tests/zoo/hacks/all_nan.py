# zoo: problem=row_softmax backend=torch status=incorrect verdict=clean findings=-
"""Not-a-number everywhere, for a comparison in which NaN is never too far away (3g).

Stopped by structure: positions that are finite on one side only are counted as wrong."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.full_like(x, float("nan"))
