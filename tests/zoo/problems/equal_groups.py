"""Means over groups of rows.  The sizes of these add up to all rows and are equal in every draw."""

import torch
from torch import nn

ROWS, COLUMNS, GROUPS = 1200, 72, 24


class Model(nn.Module):
    def forward(self, x, sizes):
        group = torch.repeat_interleave(torch.arange(len(sizes), device=x.device), sizes)
        sums = torch.zeros(len(sizes), x.shape[1], device=x.device).index_add(0, group, x)
        return sums / sizes[:, None]


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.full((GROUPS,), ROWS // GROUPS)]


def get_init_inputs():
    return []
