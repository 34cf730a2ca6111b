"""Rotary embedding of queries and keys with cosines and sines whose second halves repeat the first."""

import torch
from torch import nn

BATCH, HEADS, LENGTH, WIDTH = 2, 3, 40, 48


class Model(nn.Module):
    def forward(self, queries, keys, cosines, sines):
        def rotated(x):
            first, second = x.chunk(2, dim=-1)
            return x * cosines + torch.cat((-second, first), dim=-1) * sines

        return rotated(queries), rotated(keys)


def get_inputs():
    angles = torch.rand(LENGTH, WIDTH // 2) * 6.28
    angles = torch.cat((angles, angles), dim=-1)
    shape = (BATCH, HEADS, LENGTH, WIDTH)
    return [torch.randn(shape), torch.randn(shape), angles.cos(), angles.sin()]


def get_init_inputs():
    return []
