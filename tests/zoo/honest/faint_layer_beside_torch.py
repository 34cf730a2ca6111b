# zoo: problem=faint_layer_beside backend=torch status=passed verdict=clean findings=-
"""The same, with the scale in the weights of the faint layer and both parts in one sum."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.first = nn.Linear(features, 50)
        self.up = nn.Linear(features, hidden)
        self.down = nn.Linear(hidden, 50)

    def forward(self, x):
        faint = torch.addmm(1e-5 * self.down.bias, self.up(x).tanh(), 1e-5 * self.down.weight.T)
        return torch.addmm(faint, x, self.first.weight.T) + self.first.bias
