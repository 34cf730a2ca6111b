# zoo: problem=product_codes backend=torch status=incorrect verdict=clean findings=-
"""Adds a little less than half and cuts off: another code where the product lies just above the middle."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, w):
        return ((x @ w) * 6 + 0.499).floor().clamp(-127, 127).char()
