# zoo: problem=mean_pool backend=triton status=passed verdict=clean findings=-
"""Parts of a row add into its total atomically: the order differs from call to call, and so may the last bit."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def add_parts(x_ptr, out_ptr, columns, PART: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    column = part * PART + tl.arange(0, PART)
    x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=0.0)
    tl.atomic_add(out_ptr + row, tl.sum(x, axis=0) / columns)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.zeros(rows, dtype=x.dtype, device=x.device)
        add_parts[(rows, triton.cdiv(columns, 2048))](x, out, columns, PART=2048)
        return out
