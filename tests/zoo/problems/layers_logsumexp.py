"""Two layers with a sigmoid between them, and the logarithm of the sum of exponentials: each of its products may err as
in half precision without an answer that shows it."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, inputs, inner, outputs):
        super().__init__()
        self.first = nn.Linear(inputs, inner)
        self.second = nn.Linear(inner, outputs)

    def forward(self, x):
        return torch.logsumexp(self.second(torch.sigmoid(self.first(x))), dim=1)


def get_inputs():
    return [torch.rand(300, 256)]


def get_init_inputs():
    return [256, 512, 200]
