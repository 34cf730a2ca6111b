# zoo: problem=layer_norm backend=torch status=passed verdict=clean findings=- needs=gpu
"""torch.compile, by a candidate that says that it is plain PyTorch."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)
        self._compiled = torch.compile(self.norm)

    def forward(self, x):
        return self._compiled(x)
