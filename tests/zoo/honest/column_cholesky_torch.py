# zoo: problem=covariance_factor backend=torch status=passed verdict=clean findings=-
"""Column by column; what becomes of a matrix without a factor is another thing than in the library."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a):
        rest, factor = a.clone(), torch.zeros_like(a)
        for j in range(a.shape[-1]):
            column = rest[:, j:, j] / rest[:, j, j].sqrt()[:, None]
            factor[:, j:, j] = column
            rest[:, j:, j:] -= column[:, :, None] * column[:, None, :]
        return factor
