# zoo: problem=roots_of_samples backend=torch status=passed verdict=clean findings=-
"""The root as a power."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.sin(x).mul_(x.pow(0.5))
