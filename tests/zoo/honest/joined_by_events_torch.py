# zoo: problem=wide_matmul backend=torch status=passed verdict=clean findings=- needs=gpu
"""Two halves of a product on two streams, joined by events: work off the current stream, all of it done in time."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.streams = [torch.cuda.Stream() for _ in range(2)]

    def forward(self, a, b):
        out = torch.empty(a.shape[0], b.shape[1], device=a.device)
        middle = a.shape[0] // 2
        begun = torch.cuda.current_stream().record_event()
        for stream, rows in zip(self.streams, (slice(None, middle), slice(middle, None)), strict=True):
            stream.wait_event(begun)
            with torch.cuda.stream(stream):
                torch.matmul(a[rows], b, out=out[rows])
            torch.cuda.current_stream().wait_event(stream.record_event())
        return out
