# zoo: problem=many_faint_branches backend=torch status=passed verdict=clean findings=- speedup=>1
"""All rows at once, in single precision."""

import torch
from torch import nn
from torch.nn import functional


class ModelNew(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.up = nn.Parameter(torch.empty(layers, width, width))
        self.down = nn.Parameter(torch.empty(layers, width, width))

    def forward(self, x):
        for up, down in zip(self.up, self.down, strict=True):
            x = torch.add(x, functional.gelu(x @ up) @ down, alpha=2e-3)
        return x
