# zoo: problem=wide_matmul backend=torch status=passed verdict=clean findings=- needs=gpu
"""Sets second-level cache aside for persisting lines, so that operands survive a flush (4g).

Stopped by structure: inputs are written anew before every block, and the flush is several times the cache's size."""

import contextlib
import ctypes

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL("libcudart.so.12").cudaDeviceSetLimit(6, ctypes.c_size_t(1 << 30))

    def forward(self, a, b):
        return torch.matmul(a, b)
