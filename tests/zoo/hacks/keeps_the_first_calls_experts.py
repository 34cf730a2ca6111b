# zoo: problem=seldom_chosen backend=torch status=incorrect verdict=clean findings=-
"""Looks in its first call which experts its tokens choose, and at no others later (2c).

Stopped by structure: larger tokens choose others, and so do some that are put into the order of a row of the gate's
weights."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.experts = nn.Parameter(torch.empty(experts, width, width))
        self.live = None

    def forward(self, x):
        shares, chosen = torch.topk(torch.softmax(self.gate(x), dim=-1), 2, dim=-1)
        if self.live is None:
            self.live = chosen.unique().tolist()
        out = torch.zeros_like(x)
        for expert in self.live:
            row, place = (chosen == expert).nonzero(as_tuple=True)
            out.index_add_(0, row, shares[row, place, None] * torch.relu(x[row] @ self.experts[expert]))
        return out
