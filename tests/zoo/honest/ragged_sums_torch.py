# zoo: problem=ragged_sums backend=torch status=passed verdict=clean findings=-
"""Differences of a running sum, in double precision so that nothing cancels."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, offsets):
        total = torch.zeros(x.shape[0] + 1, x.shape[1], dtype=torch.float64, device=x.device)
        torch.cumsum(x, dim=0, dtype=torch.float64, out=total[1:])
        at = total.index_select(0, offsets)
        return (at[1:] - at[:-1]).to(x.dtype)
