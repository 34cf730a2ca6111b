# zoo: problem=shut_branch backend=torch status=passed verdict=clean findings=-
"""The branch with its sum in one operator."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.up = nn.Linear(features, hidden)
        self.down = nn.Linear(hidden, features)
        self.register_buffer("opening", torch.zeros(1))

    def forward(self, x):
        branch = self.down(torch.relu_(self.up(x)))
        return torch.addcmul(nn.functional.silu(x), branch, torch.tanh(self.opening))
