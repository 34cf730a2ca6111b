# zoo: problem=singular_value backend=torch status=passed verdict=clean findings=-
"""All steps, without the square: two products with the matrix in its place."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, steps):
        super().__init__()
        self.steps = steps

    def forward(self, x):
        vector = torch.ones_like(x[:, :, :1])
        for _ in range(self.steps):
            vector = x @ (x.mT @ vector)
            vector = vector / vector.norm(dim=1, keepdim=True)
        return x / (x.mT @ vector).norm(dim=1, keepdim=True)
