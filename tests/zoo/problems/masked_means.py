"""Means of the vectors that a mask leaves; zero where it leaves none."""

import torch
from torch import nn

BATCH, LENGTH, WIDTH = 64, 48, 100


class Model(nn.Module):
    def forward(self, x, mask):
        shares = mask.float()
        return (x * shares[..., None]).sum(dim=1) / shares.sum(dim=1, keepdim=True).clamp(min=1)


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH), torch.rand(BATCH, LENGTH) < 0.5]


def get_init_inputs():
    return []
