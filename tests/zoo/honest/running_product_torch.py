# zoo: problem=running_product backend=torch status=passed verdict=clean findings=-
"""Products within blocks, then times the last product of the block before."""

import torch
from torch import nn

BLOCK = 250


class ModelNew(nn.Module):
    def forward(self, x):
        blocks = torch.cumprod(x.view(len(x), -1, BLOCK), dim=2)
        carried = torch.cumprod(blocks[:, :-1, -1], dim=1)
        blocks[:, 1:] *= carried.unsqueeze(2)
        return blocks.view(x.shape)
