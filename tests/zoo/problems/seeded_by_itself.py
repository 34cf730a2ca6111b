"""Seeds itself before it draws its inputs, as published problems do: under any other seed it draws others."""

import torch
from torch import nn

ROWS, COLUMNS = 96, 700


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x * 2 - 1, dim=-1)


def get_inputs():
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(ROWS, COLUMNS) + torch.randn(ROWS, 1, generator=generator)]


def get_init_inputs():
    return []
