# zoo: problem=scaled_add backend=torch status=out_of_memory verdict=clean findings=-
# on a gpu: status=passed verdict=clean findings=-
"""Asks for 10 GB, more than a candidate's address space holds.  Only reserved, never touched: harmless elsewhere."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, y, alpha):
        scratch = torch.empty(10 * 10**9, dtype=torch.uint8)
        scratch[: x.numel()] = 0
        return alpha * x + y
