# zoo: problem=faint_roughness backend=torch status=passed verdict=clean findings=-
"""Error and penalty by sums of all pictures at once."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        down, along = torch.diff(x, dim=1), torch.diff(x, dim=2)
        rough = down.abs_().sum() / down.numel() + along.abs_().sum() / along.numel()
        error = (x - y).flatten()
        return error.dot(error) / error.numel() + 2e-8 * rough
