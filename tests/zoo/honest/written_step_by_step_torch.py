# zoo: problem=leaky_integrator backend=torch status=passed verdict=clean findings=-
"""The reference's loop, written into preallocated memory: a small honest gain."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.decay = nn.Parameter(torch.ones(channels))

    def forward(self, x):
        states = torch.empty_like(x)
        states[:, 0] = x[:, 0]
        for step in range(1, x.shape[1]):
            torch.addcmul(x[:, step], states[:, step - 1], self.decay, out=states[:, step])
        return states
