"""Mean of two numbers weighted by their exponentials, from which the larger one is subtracted first."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, a, b):
        top = torch.maximum(a, b)
        ours, theirs = torch.exp(a - top), torch.exp(b - top)
        return (ours * a + theirs * b) / (ours + theirs)


def get_inputs():
    return [torch.randn(600, 500), torch.randn(600, 500)]


def get_init_inputs():
    return []
