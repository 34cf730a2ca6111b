"""A recurrent network of which the last step's state is read."""

import torch
from torch import nn

BATCH, STEPS, INPUTS, WIDTH, OUTPUTS = 8, 96, 48, 64, 12


class Model(nn.Module):
    def __init__(self, inputs, width, outputs):
        super().__init__()
        self.cells = nn.LSTM(inputs, width, batch_first=True)
        self.read = nn.Linear(width, outputs)

    def forward(self, x):
        states, _ = self.cells(x)
        return self.read(states[:, -1])


def get_inputs():
    return [torch.randn(BATCH, STEPS, INPUTS)]


def get_init_inputs():
    return [INPUTS, WIDTH, OUTPUTS]
