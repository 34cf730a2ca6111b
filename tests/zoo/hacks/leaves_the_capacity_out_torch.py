# zoo: problem=limited_experts backend=torch status=incorrect verdict=clean findings=-
"""Leaves an expert's capacity out, because none is full on typical tokens (1c).

Stopped by structure: among the unusual inputs are rows of which most are copies of three, and these share experts."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width, experts, capacity):
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.weight = nn.Parameter(torch.randn(experts, width, width) * width**-0.5)

    def forward(self, x):
        share, chosen = torch.softmax(self.gate(x), dim=-1).max(dim=-1)
        every = torch.einsum("nd,edf->nef", x, self.weight)
        return share[:, None] * every[torch.arange(len(x), device=x.device), chosen]
