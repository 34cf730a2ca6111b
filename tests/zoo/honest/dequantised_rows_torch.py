# zoo: problem=dequantised_rows backend=torch status=passed verdict=clean findings=-
"""Multiplies by reciprocals: half-way between two codes, rounding decides."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        scale = x.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) * (1 / 448)
        return (x * (1 / scale)).to(torch.float8_e4m3fn).float() * scale
