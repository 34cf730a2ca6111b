"""Quotients of integers, none of which is negative or large in any draw."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.div(x, 7, rounding_mode="floor") * 3 + x % 7


def get_inputs():
    return [torch.randint(0, 1000, (128, 500))]


def get_init_inputs():
    return []
