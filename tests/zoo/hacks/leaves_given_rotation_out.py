# zoo: problem=given_rotation backend=torch status=incorrect verdict=clean findings=-
"""Leaves out the product with an input that is the unit matrix in every draw (1c).

Stopped by structure: the rows of inputs of two values that never vary are permuted."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, basis):
        return torch.relu(x)
