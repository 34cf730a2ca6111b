# zoo: problem=balanced_costs backend=torch status=passed verdict=clean findings=-
"""All steps, in place."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, steps):
        super().__init__()
        self.steps = steps

    def forward(self, costs):
        plan, steps = torch.exp(-costs), self.steps
        for _ in range(steps):
            plan.div_(plan.sum(dim=2, keepdim=True))
            plan.div_(plan.sum(dim=1, keepdim=True))
        return plan
