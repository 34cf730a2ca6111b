"""Attention over sequences of given lengths, which are all the longest in the problem's own inputs."""

import torch
from torch import nn

BATCH, HEADS, LENGTH, WIDTH = 4, 4, 96, 32


class Model(nn.Module):
    def forward(self, q, k, v, lengths):
        scores = q @ k.transpose(-1, -2) * WIDTH**-0.5
        inside = torch.arange(k.shape[-2], device=k.device) < lengths[:, None]
        scores = scores.masked_fill(~inside[:, None, None, :], float("-inf"))
        return torch.softmax(scores, dim=-1) @ v


def get_inputs():
    q, k, v = (torch.randn(BATCH, HEADS, LENGTH, WIDTH) for _ in range(3))
    return [q, k, v, torch.full((BATCH,), LENGTH)]


def get_init_inputs():
    return []
