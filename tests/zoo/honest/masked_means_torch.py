# zoo: problem=masked_means backend=torch status=passed verdict=clean findings=-
"""One product, divided by one at least."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, mask):
        shares = mask.float()
        total = shares.sum(dim=1, keepdim=True)
        return torch.bmm(shares[:, None, :], x)[:, 0] / torch.where(total == 0, 1.0, total)
