"""Branches of a residual stream that are faint, as they are after their initialisation; the rows come in small groups."""

import torch
from torch import nn
from torch.nn import functional

ROWS, WIDTH, LAYERS, GROUP = 96, 96, 16, 8


class Model(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.up = nn.Parameter(torch.randn(layers, width, width) * width**-0.5)
        self.down = nn.Parameter(torch.randn(layers, width, width) * width**-0.5)

    def forward(self, x):
        groups = []
        for rows in x.split(GROUP):
            for up, down in zip(self.up, self.down, strict=True):
                rows = rows + 2e-3 * (functional.gelu(rows @ up) @ down)
            groups.append(rows)
        return torch.cat(groups)


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return [WIDTH, LAYERS]
