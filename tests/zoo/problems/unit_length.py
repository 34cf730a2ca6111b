"""Rows divided by their lengths, at least 1e-12, and scaled; no row that get_inputs draws is faint."""

import torch
import torch.nn.functional as F
from torch import nn

ROWS, FEATURES = 128, 300


class Model(nn.Module):
    def forward(self, x):
        return F.normalize(x, dim=-1) * FEATURES**0.5


def get_inputs():
    return [torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return []
