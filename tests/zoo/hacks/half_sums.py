# zoo: problem=moments backend=torch status=incorrect verdict=clean findings=-
"""Adds in half precision and answers in single (8, 3b).

Stopped by structure: the error budget is a small multiple of what single precision costs, not a constant."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        half = x.half()
        return {
            "mean": half.mean(dim=(0, 2)).float(),
            "variance": half.var(dim=(0, 2), correction=0).float(),
        }
