# zoo: problem=roots_until_they_stand backend=torch status=passed verdict=clean findings=- speedup=>1
"""The third part of a power, to which the steps converge."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.pow(x, 1 / 3)
