# zoo: problem=segment_peaks backend=torch status=passed verdict=clean findings=-
"""One maximum over all rows, those of other segments hidden; empty segments by their counts."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, segments):
        super().__init__()
        self.segments = segments

    def forward(self, x, segment):
        is_there = segment[None, :] == torch.arange(self.segments, device=x.device)[:, None]
        peaks = x.expand(self.segments, *x.shape).masked_fill(~is_there[..., None], float("-inf"))
        return torch.where(is_there.any(1, keepdim=True), peaks.amax(1), 0.0)
