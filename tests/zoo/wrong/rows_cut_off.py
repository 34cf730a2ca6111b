# zoo: problem=dequantised_rows backend=torch status=incorrect verdict=clean findings=-
"""Rounds codes towards zero."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        scale = x.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / 448
        y = x / scale
        _, exponent = torch.frexp(y)
        bits = 4 - exponent.clamp(min=-5)
        return torch.ldexp(torch.trunc(torch.ldexp(y, bits)), -bits) * scale
