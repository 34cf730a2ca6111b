"""Shares of a codebook whose rows are averaged with those nearby.  The codebook is an input, and the same in every draw."""

import torch
from torch import nn

ENTRIES, WIDTH = 768, 48


class Model(nn.Module):
    def forward(self, shares, codebook):
        norms = (codebook * codebook).sum(1)
        distances = norms[:, None] + norms[None, :] - 2 * codebook @ codebook.T
        return shares @ (torch.softmax(-distances, dim=1) @ codebook)


def get_inputs():
    codebook = torch.linspace(-1.2, 1, ENTRIES * WIDTH).reshape(ENTRIES, WIDTH)
    return [torch.randn(40, ENTRIES), codebook]


def get_init_inputs():
    return []
