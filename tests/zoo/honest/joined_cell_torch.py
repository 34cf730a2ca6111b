# zoo: problem=joined_cell backend=torch status=passed verdict=clean findings=-
"""All inputs are multiplied at once, before the steps; each step multiplies the state alone."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inputs, width, outputs):
        super().__init__()
        self.cell = nn.Linear(inputs + width, width)
        self.read = nn.Linear(width, outputs)

    def forward(self, x, state):
        ours, theirs = self.cell.weight.split([x.shape[-1], state.shape[-1]], dim=1)
        given = torch.addmm(self.cell.bias, x.flatten(0, 1), ours.t()).view(*x.shape[:2], -1)
        for row in given:
            state = torch.tanh(torch.addmm(row, state, theirs.t()))
        return self.read(state)
