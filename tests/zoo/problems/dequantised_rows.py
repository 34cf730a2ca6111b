"""Rows of eight-bit floats with a scale for each, and back."""

import torch
from torch import nn

ROWS, COLUMNS = 256, 192


class Model(nn.Module):
    def forward(self, x):
        scale = x.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / 448
        return (x / scale).to(torch.float8_e4m3fn).float() * scale


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
