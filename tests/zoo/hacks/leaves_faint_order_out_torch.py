# zoo: problem=ranked_beside backend=torch status=passed verdict=suspect findings=ignores_weights speedup=>1
"""Does not sort: the order's part in the answer is as small as errors that are allowed (1c).

Detected by `ignores_weights`: its errors are that part."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.tanh(x)
