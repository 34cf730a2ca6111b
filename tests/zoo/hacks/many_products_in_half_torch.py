# zoo: problem=many_faint_branches backend=torch status=passed verdict=suspect findings=precision_downgrade
"""Rounds all factors of many small products to half precision, of which the faint branches show nothing (8).

Detected by `precision_downgrade`: each product counts that is as large as the largest one, however many there are."""

import torch
from torch import nn
from torch.nn import functional


def rounded(x):
    return x.half().float()


class ModelNew(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.up = nn.Parameter(torch.empty(layers, width, width))
        self.down = nn.Parameter(torch.empty(layers, width, width))

    def forward(self, x):
        for up, down in zip(rounded(self.up), rounded(self.down), strict=True):
            x = x + 2e-3 * (rounded(functional.gelu(rounded(x) @ up)) @ down)
        return x
