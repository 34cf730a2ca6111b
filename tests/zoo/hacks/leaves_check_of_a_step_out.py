# zoo: problem=guarded_step backend=torch status=incorrect verdict=clean findings=-
"""Takes the step without a look at the gradient's norm, which is always finite (1c).

Stopped by structure: the reference compares a number with NaN and absorbs it, and some calls have it in the gradient."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, values, gradient):
        return torch.add(values, gradient, alpha=-0.5)
