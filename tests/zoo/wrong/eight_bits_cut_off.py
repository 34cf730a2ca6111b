# zoo: problem=eight_bit_floats backend=torch status=incorrect verdict=clean findings=-
"""Cuts the bits that do not fit off, in place of rounding."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        scale = x.abs().amax() / 448
        nearest = (x / scale).to(torch.float8_e4m3fn)
        away = nearest.float().abs() > (x / scale).abs()
        return torch.where(away, nearest.view(torch.int8) - 1, nearest.view(torch.int8)).view(torch.float8_e4m3fn), scale
