"""Exponentials of costs, rows and columns scaled in turn until both add up to one: twenty times, where three would do
for costs between 0 and 1."""

import torch
from torch import nn

MATRICES, ORDER, STEPS = 6, 90, 20


class Model(nn.Module):
    def __init__(self, steps):
        super().__init__()
        self.steps = steps

    def forward(self, costs):
        plan = torch.exp(-costs)
        for _ in range(self.steps):
            plan = plan / plan.sum(dim=2, keepdim=True)
            plan = plan / plan.sum(dim=1, keepdim=True)
        return plan


def get_inputs():
    return [torch.rand(MATRICES, ORDER, ORDER)]


def get_init_inputs():
    return [STEPS]
