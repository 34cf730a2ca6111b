# zoo: problem=pairwise_distance backend=torch status=passed verdict=clean findings=-
"""As many threads as there are cores for it, and the same distances."""

import os

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        torch.set_num_threads(len(os.sched_getaffinity(0)))

    def forward(self, points, centres):
        return torch.cdist(points, centres)
