# zoo: problem=frozen_batch_norm backend=torch status=passed verdict=clean findings=-
"""Answers in another memory format: the values are right, and delivery copies them into order."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("variance", torch.ones(channels))

    def forward(self, x):
        x = x.contiguous(memory_format=torch.channels_last)
        return nn.functional.batch_norm(x, self.mean, self.variance, self.weight, self.bias, eps=1e-5)
