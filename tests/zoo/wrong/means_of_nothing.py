# zoo: problem=masked_means backend=torch status=incorrect verdict=clean findings=-
"""NaN where a mask hides everything: users pad batches.

Stopped by structure: some rows of a mask are emptied, some filled."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, mask):
        shares = mask.float()
        return torch.bmm(shares[:, None, :], x)[:, 0] / shares.sum(dim=1, keepdim=True)
