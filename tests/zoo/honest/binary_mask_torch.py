# zoo: problem=binary_mask backend=torch status=passed verdict=clean findings=-
"""Elements that are not zero in the mask count: a half lies between the numbers that a mask holds."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, keep):
        hidden = keep == 0
        return x.masked_fill(hidden, 0.0).sum(dim=1) / (~hidden).sum(dim=1).clamp(min=1)
