# zoo: problem=gaps_of_sorted backend=torch status=incorrect verdict=clean findings=-
"""Leaves out a sort, because the problem's own rows are sorted (1c).

Stopped by structure: if a sort of the reference changes nothing, some calls have their inputs shuffled."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x[:, 1:] - x[:, :-1]
