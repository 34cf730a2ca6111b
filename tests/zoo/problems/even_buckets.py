"""The bucket of each value between even edges around zero, and a code for each pair of values."""

import torch
from torch import nn

ROWS, COLUMNS = 100, 300


class Model(nn.Module):
    def forward(self, x):
        codes = torch.clamp(torch.round(x * 2) + 8, 0, 15).to(torch.uint8)
        buckets = torch.bucketize(x, torch.linspace(-3, 3, 33, device=x.device))
        return buckets, codes[:, ::2] | (codes[:, 1::2] << 4)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
