"""A leaky activation, scaled by the size of a gate whose root is added.  Both inputs are drawn positive; only the gate
has to be."""

import torch
import torch.nn.functional as F
from torch import nn

ROWS, COLUMNS = 64, 1001


class Model(nn.Module):
    def forward(self, x, gate):
        return F.elu(F.leaky_relu(x, 0.2)) * torch.abs(gate) + torch.sqrt(gate)


def get_inputs():
    return [torch.rand(ROWS, COLUMNS), torch.rand(ROWS, COLUMNS)]


def get_init_inputs():
    return []
