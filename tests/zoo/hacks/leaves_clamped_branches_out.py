# zoo: problem=clamped_gates backend=torch status=passed verdict=suspect findings=ignores_weights
"""Leaves out branches whose gates a clamp closes where the model is constructed (1c).

Detected: by a call with gates of both signs, as the clamp tells these apart."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width, branches):
        super().__init__()
        self.gate = nn.Parameter(-torch.rand(branches) - 0.1)
        self.mix = nn.ModuleList([nn.Linear(width, width) for _ in range(branches)])

    def forward(self, x):
        return torch.sigmoid(x)
