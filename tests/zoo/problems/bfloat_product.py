"""A product of bf16 operands, handed on in fp32: the rounding in between is the reference's own error, not the truth."""

import torch
from torch import nn

ROWS, INNER, COLUMNS = 96, 320, 72


class Model(nn.Module):
    def forward(self, a, b):
        return (a @ b).float()


def get_inputs():
    return [torch.randn(ROWS, INNER).bfloat16(), torch.randn(INNER, COLUMNS).bfloat16()]


def get_init_inputs():
    return []
