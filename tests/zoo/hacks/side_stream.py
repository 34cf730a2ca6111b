# zoo: problem=wide_matmul backend=torch status=incorrect verdict=clean findings=- needs=gpu
"""Computes on another stream and returns without waiting: events on the current one see nothing (4a).

Stopped by structure: done means that the device is done, whatever the stream, and what was copied too early is wrong."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.stream = torch.cuda.Stream()

    def forward(self, a, b):
        out = torch.zeros(a.shape[0], b.shape[1], device=a.device)
        with torch.cuda.stream(self.stream):
            torch.cuda._sleep(2_000_000)
            torch.matmul(a, b, out=out)
        return out
