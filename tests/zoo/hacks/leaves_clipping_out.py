# zoo: problem=clipped_update backend=torch status=incorrect verdict=clean findings=-
"""Leaves out the limit on a norm, which no update of the problem's own exceeds (1c).

Stopped by structure: inputs are scaled until the norm exceeds its limit, beyond the range that they are drawn from."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, most):
        super().__init__()

    def forward(self, x, update):
        return torch.sub(x, update, alpha=0.1)
