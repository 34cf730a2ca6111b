"""Sums of rows between offsets, which are as far apart as ever: those that a problem gives and never varies."""

import torch
from torch import nn

ROWS, COLUMNS, SEGMENTS = 600, 48, 12


class Model(nn.Module):
    def forward(self, x, offsets):
        lengths = offsets[1:] - offsets[:-1]
        segment = torch.repeat_interleave(torch.arange(len(lengths), device=x.device), lengths)
        return torch.zeros(len(lengths), x.shape[1], device=x.device).index_add(0, segment, x)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.arange(SEGMENTS + 1) * (ROWS // SEGMENTS)]


def get_init_inputs():
    return []
