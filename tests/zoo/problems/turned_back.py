"""Points turned back by the inverses of rotations."""

import torch
from torch import nn

ROTATIONS, SIZE, POINTS = 40, 6, 50


class Model(nn.Module):
    def forward(self, rotations, points):
        return torch.linalg.solve(rotations, points)


def get_inputs():
    rotations = torch.linalg.qr(torch.randn(ROTATIONS, SIZE, SIZE)).Q
    return [rotations, torch.randn(ROTATIONS, SIZE, POINTS)]


def get_init_inputs():
    return []
