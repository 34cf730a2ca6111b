# zoo: problem=seeded_by_itself backend=torch status=passed verdict=clean findings=-
"""Honest on a problem that seeds itself: its inputs are drawn without its seeds, and there is nothing to suspect."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        powers = torch.exp((x - x.amax(-1, keepdim=True)) * 2)
        return powers / powers.sum(-1, keepdim=True)
