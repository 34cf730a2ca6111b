"""Cube roots by steps of Newton's method, as many as the slowest number needs."""

import torch
from torch import nn

COUNT, MOST_STEPS = 60_000, 60


class Model(nn.Module):
    def forward(self, x):
        root = x
        for _ in range(MOST_STEPS):
            step = (x / (root * root) - root) / 3
            root = root + step
            if float((step / root).abs().max()) < 1e-6:
                break
        return root


def get_inputs():
    return [torch.rand(COUNT) * 3 + 0.7]


def get_init_inputs():
    return []
