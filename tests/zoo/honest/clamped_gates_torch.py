# zoo: problem=clamped_gates backend=torch status=passed verdict=clean findings=-
"""All branches by one product, gated and added in another."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width, branches):
        super().__init__()
        self.gate = nn.Parameter(torch.empty(branches))
        self.mix = nn.ModuleList([nn.Linear(width, width) for _ in range(branches)])

    def forward(self, x):
        weight = torch.stack([each.weight for each in self.mix])
        bias = torch.stack([each.bias for each in self.mix])
        parts = torch.tanh(torch.baddbmm(bias[:, None], x.expand(len(weight), *x.shape), weight.mT))
        gates = torch.clamp(self.gate, min=0.0).clamp(max=1.0)
        return torch.sigmoid(x) + torch.einsum("b,brw->rw", gates, parts)
