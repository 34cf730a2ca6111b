"""Floats of eight bits with one scale, and the scale."""

import torch
from torch import nn

ROWS, COLUMNS = 256, 192


class Model(nn.Module):
    def forward(self, x):
        scale = x.abs().amax() / 448
        return (x / scale).to(torch.float8_e4m3fn), scale


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
