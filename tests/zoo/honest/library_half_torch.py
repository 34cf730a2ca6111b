# zoo: problem=half_matmul backend=torch status=passed verdict=clean findings=- needs=gpu
"""The library, as it says, into preallocated memory that is returned again and again."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = None

    def forward(self, a, b):
        if self.out is None:
            self.out = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
        return torch.matmul(a, b, out=self.out)
