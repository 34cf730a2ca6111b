# zoo: problem=far_clamp backend=torch status=incorrect verdict=clean findings=-
"""Leaves out a clamp if three rows are far from its limits (1c).

Stopped by structure: in one call a few rows at random places are scaled so far that they reach the limits."""

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        y = self.linear(x)
        return y if y[::32].abs().amax() < 2.9 and y[-1].abs().amax() < 2.9 else y.clamp(-3.0, 3.0)
