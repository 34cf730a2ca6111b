# zoo: problem=row_softmax backend=torch status=passed verdict=clean findings=-
"""Gives unused memory back in every call: its outputs then lie in other memory at the same address."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        torch.cuda.empty_cache()
        return torch.softmax(x, dim=-1)
