"""A product in whole numbers: where it lies between two of them, rounding decides."""

import torch
from torch import nn

ROWS, INNER, COLUMNS = 160, 384, 144


class Model(nn.Module):
    def forward(self, x, w):
        return (torch.matmul(x, w) * 6).round().clamp(-127, 127).to(torch.int8)


def get_inputs():
    return [torch.randn(ROWS, INNER), torch.randn(INNER, COLUMNS) / INNER**0.5 * 4]


def get_init_inputs():
    return []
