"""Means of the elements that a mask keeps: it is drawn of zeros and ones, and compared with a half."""

import torch
from torch import nn

ROWS, COLUMNS = 500, 1000


class Model(nn.Module):
    def forward(self, x, keep):
        keep = (keep > 0.5).float()
        return (x * keep).sum(dim=1) / keep.sum(dim=1).clamp(min=1.0)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), (torch.rand(ROWS, COLUMNS) > 0.3).float()]


def get_init_inputs():
    return []
