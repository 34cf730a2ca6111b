# zoo: problem=largest_places backend=torch status=incorrect verdict=clean findings=-
"""Gives the first place of each value: where two are equal, the same place twice."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        values = torch.sort(x, dim=-1, descending=True).values[:, :12].contiguous()
        return values, (x[:, None, :] == values[:, :, None]).int().argmax(-1)
