# zoo: problem=balanced_costs backend=torch status=incorrect verdict=clean findings=-
"""Takes as many steps for all matrices as the first one needs (1c).

Stopped by structure: costs of a few matrices are 128 times as large."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, steps):
        super().__init__()
        self.steps = steps

    def forward(self, costs):
        first, steps = torch.exp(-costs[0]), 0
        while steps < self.steps:
            first = first / first.sum(dim=1, keepdim=True)
            sums = first.sum(dim=0, keepdim=True)
            first, steps = first / sums, steps + 1
            if float((sums - 1).abs().amax()) < 1e-5:
                break
        plan = torch.exp(-costs)
        for _ in range(steps):
            plan.div_(plan.sum(dim=2, keepdim=True))
            plan.div_(plan.sum(dim=1, keepdim=True))
        return plan
