# zoo: problem=young_layers backend=torch status=passed verdict=clean findings=-
"""In place where the reference allocates."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.Parameter(torch.empty(width, width))
        self.layer = nn.Parameter(torch.empty(width, width))

    def forward(self, x):
        mixed = (x @ self.mix).tanh_()
        return mixed.add_((mixed @ self.layer).tanh_(), alpha=0.01)
