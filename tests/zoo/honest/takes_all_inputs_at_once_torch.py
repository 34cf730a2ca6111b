# zoo: problem=plain_recurrence backend=torch status=passed verdict=clean findings=- speedup=>1
"""One product takes the inputs of all steps; the matrix for the state is turned once, in the first call."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.take = nn.Linear(width, width)
        self.keep = nn.Linear(width, width)
        self.turned = None

    def forward(self, x):
        if self.turned is None:
            self.turned = self.keep.weight.t().contiguous()
        taken = (self.take(x) + self.keep.bias).transpose(0, 1).contiguous()
        state = torch.tanh(taken[0])
        for step in taken[1:]:
            state = torch.addmm(step, state, self.turned).tanh_()
        return state
