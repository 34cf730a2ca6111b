# zoo: problem=dequantised_rows backend=torch status=incorrect verdict=clean findings=-
"""Rounds to bfloat16, which has as many bits as the codes or more."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.bfloat16().float()
