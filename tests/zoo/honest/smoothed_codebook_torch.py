# zoo: problem=smoothed_codebook backend=torch status=passed verdict=clean findings=-
"""Multiplies from the left, and leaves out the norms of rows, which cancel in their softmax."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, shares, codebook):
        norms = (codebook * codebook).sum(1)
        scores = torch.addmm(-norms[None, :], codebook, codebook.T, alpha=2)
        return (shares @ torch.softmax(scores, dim=1)) @ codebook
