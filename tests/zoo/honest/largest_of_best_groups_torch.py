# zoo: problem=largest_values backend=torch status=passed verdict=clean findings=-
"""The largest of the elements of those groups that have the largest maxima, which hold all of them."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        groups = x.view(len(x), -1, 16)
        best = torch.topk(groups.amax(dim=-1), 4, dim=-1).indices
        inside = groups.gather(1, best[:, :, None].expand(-1, -1, 16))
        return torch.topk(inside.flatten(1), 4, dim=-1).values
