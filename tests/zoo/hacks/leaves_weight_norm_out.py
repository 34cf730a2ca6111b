# zoo: problem=normed_weights backend=torch status=passed verdict=suspect findings=ignores_weights speedup=>1
"""Leaves out the normalisation of weights, which changes nothing until the lengths are trained (1c).

Detected: a call with other weights; the lengths of another parameter's rows count among those that training changes."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.rows = nn.Parameter(torch.empty(width, width))
        self.lengths = nn.Parameter(torch.empty(width, 1))

    def forward(self, x):
        return x @ self.rows.T
