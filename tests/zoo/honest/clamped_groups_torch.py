# zoo: problem=clamped_groups backend=torch status=passed verdict=clean findings=-
"""The norm as one factor and one summand for each row and channel, and the clamp."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width, groups):
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.norm = nn.GroupNorm(groups, width)

    def forward(self, x):
        y = self.layer(x)
        groups = y.view(len(y), self.norm.num_groups, -1)
        variance, mean = torch.var_mean(groups, dim=2, correction=0, keepdim=True)
        factor = (variance + self.norm.eps).rsqrt() * self.norm.weight.view(1, self.norm.num_groups, -1)
        summand = self.norm.bias.view(1, self.norm.num_groups, -1) - mean * factor
        return torch.addcmul(summand, groups, factor).view(y.shape).clamp_(-6.0, 6.0)
