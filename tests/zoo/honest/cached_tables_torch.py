# zoo: problem=head_loop_attention backend=torch status=passed verdict=clean findings=-
"""Caches constants by shape and device (a scale), as many attention modules do; answers are computed in every call."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self._cache = {}

    def _scale(self, q):
        key = (q.shape[-1], q.device, q.dtype)
        if key not in self._cache:
            self._cache[key] = torch.tensor(q.shape[-1] ** -0.5, device=q.device, dtype=q.dtype)
        return self._cache[key]

    def forward(self, q, k, v):
        return torch.softmax(torch.bmm(q, k.transpose(1, 2)) * self._scale(q), dim=-1) @ v
