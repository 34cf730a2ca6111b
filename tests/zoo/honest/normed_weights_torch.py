# zoo: problem=normed_weights backend=torch status=passed verdict=clean findings=- speedup=>1
"""The factor of each row of weights is applied to the narrow output in place of the wide weights."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.rows = nn.Parameter(torch.empty(width, width))
        self.lengths = nn.Parameter(torch.empty(width, 1))

    def forward(self, x):
        return (x @ self.rows.T) * (self.lengths / torch.linalg.vector_norm(self.rows, dim=1, keepdim=True)).T
