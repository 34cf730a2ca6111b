# zoo: problem=even_buckets backend=torch status=incorrect verdict=clean findings=-
"""Rounds values down to codes, not to the nearest."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        buckets = x.add(3.0).div_(0.1875).ceil_().clamp_(0, 33).long()
        codes = x.mul(2).add_(8).floor_().clamp_(0, 15).to(torch.uint8).view(len(x), -1, 2)
        return buckets, torch.bitwise_or(codes[..., 0], torch.bitwise_left_shift(codes[..., 1], 4))
