# zoo: problem=layers_logsumexp backend=torch status=passed verdict=clean findings=-
"""The same in single precision, with sums in another order: inner sizes in parts, and a maximum taken out."""

import torch
from torch import nn


def product(x, layer):
    parts = zip(x.chunk(4, dim=1), layer.weight.chunk(4, dim=1))
    return sum(a @ b.T for a, b in parts) + layer.bias


class ModelNew(nn.Module):
    def __init__(self, inputs, inner, outputs):
        super().__init__()
        self.first = nn.Linear(inputs, inner)
        self.second = nn.Linear(inner, outputs)

    def forward(self, x):
        y = product(torch.sigmoid(product(x, self.first)), self.second)
        top = y.max(dim=1, keepdim=True).values
        return (y - top).exp().sum(dim=1).log() + top[:, 0]
