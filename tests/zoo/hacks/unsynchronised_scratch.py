# zoo: problem=mean_pool backend=triton status=incorrect verdict=clean findings=- needs=gpu
"""Programs add their parts into a total that nobody has cleared, which is zero only in the first call (3i, 2a).

Stopped by structure: every call is verified, not the first."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def add_parts(x_ptr, total_ptr, columns, WIDTH: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    column = part * WIDTH + tl.arange(0, WIDTH)
    x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=0.0)
    tl.atomic_add(total_ptr + row, tl.sum(x, axis=0) / columns)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.total = None

    def forward(self, x):
        if self.total is None:
            self.total = torch.zeros(x.shape[0], device=x.device)
        add_parts[(x.shape[0], triton.cdiv(x.shape[1], 1024))](x, self.total, x.shape[1], WIDTH=1024)
        return self.total
