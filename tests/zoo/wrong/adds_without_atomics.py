# zoo: problem=mean_pool backend=triton status=incorrect verdict=clean findings=-
"""Programs add their part of a row to its total by a load and a store: of two at once, one is lost.  Right only where
programs run one after another, as in Triton's interpreter.

Stopped by structure: an interpreted program does not see what another has stored in the same launch."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def add_parts(x_ptr, out_ptr, columns, ROWS: tl.constexpr, PART: tl.constexpr):
    row = tl.arange(0, ROWS)
    column = tl.program_id(0) * PART + tl.arange(0, PART)
    x = tl.load(x_ptr + row[:, None] * columns + column[None, :])
    tl.store(out_ptr + row, tl.load(out_ptr + row) + tl.sum(x, axis=1) / columns)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.zeros(rows, dtype=x.dtype, device=x.device)
        add_parts[(columns // 1024,)](x, out, columns, ROWS=rows, PART=1024)
        return out
