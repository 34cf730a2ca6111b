"""A gate among the inputs, nearly shut in every draw, lets a running sum through."""

import torch
from torch import nn
from torch.nn import functional

ROWS, WIDTH = 200, 900


class Model(nn.Module):
    def forward(self, x, gate):
        return functional.silu(x) + gate * torch.cumsum(torch.sort(x, dim=1).values, dim=1)


def get_inputs():
    return [torch.randn(ROWS, WIDTH), torch.full((WIDTH,), 1e-9)]


def get_init_inputs():
    return []
