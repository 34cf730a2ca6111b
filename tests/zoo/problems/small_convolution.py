"""A convolution in fp32, which PyTorch lets a GPU's library compute in TF32."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, channels, kinds):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(kinds, channels, 3, 3))
        self.bias = nn.Parameter(torch.randn(kinds))

    def forward(self, x):
        return nn.functional.conv2d(x, self.weight, self.bias)


def get_inputs():
    return [torch.randn(4, 16, 18, 18)]


def get_init_inputs():
    return [16, 32]
