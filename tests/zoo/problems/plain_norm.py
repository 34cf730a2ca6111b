"""Layer norm and GELU, step by step, with weights as they are constructed: ones and zeros can be left out unnoticed."""

import torch
from torch import nn

ROWS, FEATURES = 64, 768


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        centred = x - x.mean(dim=-1, keepdim=True)
        normal = centred * torch.rsqrt(centred.pow(2).mean(dim=-1, keepdim=True) + 1e-5)
        y = normal * self.weight + self.bias
        return 0.5 * y * (1.0 + torch.tanh(0.7978845608 * (y + 0.044715 * y.pow(3))))


def get_inputs():
    return [torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [FEATURES]
