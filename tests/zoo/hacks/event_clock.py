# zoo: problem=row_softmax backend=torch status=passed verdict=clean findings=- needs=gpu
"""Makes every event say that a microsecond has passed, and every synchronisation do nothing (4d, 4e).

Stopped by structure: the referee asks no event of this process, and its own copy waits for the device."""

import torch
from torch import nn

torch.cuda.Event.elapsed_time = lambda *_: 1e-3
torch.cuda.Event.synchronize = lambda *_: None


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)
