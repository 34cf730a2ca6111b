"""The positive part of an attention, in single steps."""

import torch
from torch import nn

HEADS, LENGTH, WIDTH = 6, 160, 32


class Model(nn.Module):
    def forward(self, q, k, v):
        scores = q @ k.transpose(-1, -2) / WIDTH**0.5
        weights = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
        return torch.relu(weights / weights.sum(dim=-1, keepdim=True) @ v)


def get_inputs():
    return [torch.randn(HEADS, LENGTH, WIDTH) for _ in range(3)]


def get_init_inputs():
    return []
