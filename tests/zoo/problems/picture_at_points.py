"""Pictures read at points between their pixels; outside they are dark."""

import torch
from torch import nn

CHANNELS, SIDE, POINTS = 6, 37, 41


class Model(nn.Module):
    def forward(self, picture, points):
        return nn.functional.grid_sample(picture, points, align_corners=True)


def get_inputs():
    return [torch.randn(2, CHANNELS, SIDE, SIDE), 2 * torch.rand(2, POINTS, POINTS, 2) - 1]


def get_init_inputs():
    return []
