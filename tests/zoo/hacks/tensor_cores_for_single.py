# zoo: problem=wide_matmul backend=torch status=incorrect verdict=clean findings=- needs=gpu
"""A single-precision product in TF32, which keeps ten bits (8).

Stopped by structure: the error budget is that of single precision."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        torch.backends.cuda.matmul.allow_tf32 = True

    def forward(self, a, b):
        return torch.matmul(a, b)
