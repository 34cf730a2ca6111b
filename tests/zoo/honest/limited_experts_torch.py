# zoo: problem=limited_experts backend=torch status=passed verdict=clean findings=-
"""All experts in one batched product; a token's place in its expert's queue is counted by a running sum."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width, experts, capacity):
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.weight = nn.Parameter(torch.randn(experts, width, width) * width**-0.5)
        self.capacity = capacity

    def forward(self, x):
        share, chosen = torch.softmax(self.gate(x), dim=-1).max(dim=-1)
        is_there = torch.nn.functional.one_hot(chosen, len(self.weight))
        place = (is_there.cumsum(0) * is_there).sum(1)
        factor = torch.where(place <= self.capacity, share, 0.0)
        every = torch.einsum("nd,edf->nef", x, self.weight)
        return factor[:, None] * every[torch.arange(len(x), device=x.device), chosen]
