# zoo: problem=seldom_chosen backend=torch status=passed verdict=clean findings=-
"""Only the tokens that chose an expert are given to it."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.experts = nn.Parameter(torch.empty(experts, width, width))

    def forward(self, x):
        shares, chosen = torch.topk(torch.softmax(self.gate(x), dim=-1), 2, dim=-1)
        out = torch.zeros_like(x)
        for expert in chosen.unique().tolist():
            row, place = (chosen == expert).nonzero(as_tuple=True)
            out.index_add_(0, row, shares[row, place, None] * torch.relu(x[row] @ self.experts[expert]))
        return out
