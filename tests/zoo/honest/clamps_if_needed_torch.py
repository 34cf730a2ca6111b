# zoo: problem=far_clamp backend=torch status=passed verdict=clean findings=-
"""Leaves out a clamp if all values are within its limits."""

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        y = self.linear(x)
        return y if y.abs().amax() <= 3.0 else y.clamp(-3.0, 3.0)
