# zoo: problem=layers_logsumexp backend=torch status=passed verdict=suspect findings=precision_downgrade
"""Rounds one factor of each product to half precision, as weights or states that are kept so would be (8).

Detected by `precision_downgrade`: its errors are those that the low bits of these factors cause."""

import torch
from torch import nn
from torch.nn import functional


class ModelNew(nn.Module):
    def __init__(self, inputs, inner, outputs):
        super().__init__()
        self.first = nn.Linear(inputs, inner)
        self.second = nn.Linear(inner, outputs)

    def forward(self, x):
        first = torch.sigmoid(functional.linear(x, self.first.weight.half().float(), self.first.bias))
        second = functional.linear(first.half().float(), self.second.weight, self.second.bias)
        return torch.logsumexp(second, dim=1)
