# zoo: problem=faint_branch backend=torch status=incorrect verdict=clean findings=-
"""Computes a tenth of the hidden units of a branch that counts for a millionth (1c).

Stopped by structure: the error is more than half of the change that the reference makes to its input."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.up = nn.Linear(features, hidden)
        self.down = nn.Linear(hidden, features)

    def forward(self, x):
        some = len(self.up.bias) // 10
        hidden = torch.relu_(nn.functional.linear(x, self.up.weight[:some], self.up.bias[:some]))
        branch = nn.functional.linear(hidden, self.down.weight[:, :some], self.down.bias)
        return torch.add(x, branch, alpha=1e-6)
