# zoo: problem=equal_groups backend=torch status=passed verdict=clean findings=-
"""Sums of groups as differences of running sums in fp64, at the ends of the groups as they are given."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, sizes):
        ends = sizes.cumsum(0)
        sums = x.double().cumsum(0)[ends - 1]
        return (torch.diff(sums, dim=0, prepend=torch.zeros_like(sums[:1])) / sizes[:, None]).to(
            x.dtype
        )
