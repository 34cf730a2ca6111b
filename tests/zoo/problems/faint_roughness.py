"""A smooth error of pictures with a penalty for differences of neighbours, whose factor is faint."""

import torch
from torch import nn
from torch.nn import functional

PICTURES, SIZE = 12, 150


class Model(nn.Module):
    def forward(self, x, y):
        rough = (x[:, 1:] - x[:, :-1]).abs().mean() + (x[:, :, 1:] - x[:, :, :-1]).abs().mean()
        return functional.mse_loss(x, y) + 2e-8 * rough


def get_inputs():
    return [torch.randn(PICTURES, SIZE, SIZE), torch.randn(PICTURES, SIZE, SIZE)]


def get_init_inputs():
    return []
