# zoo: problem=mean_pool backend=triton status=passed verdict=clean findings=-
"""Few programs take parts by an atomic ticket until none is left, in whichever order they come."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def mean(x_ptr, ticket_ptr, out_ptr, columns, PARTS: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    part = tl.atomic_add(ticket_ptr, 1)
    while part < PARTS:
        row = part * ROWS + tl.arange(0, ROWS)
        x = tl.load(x_ptr + row[:, None] * columns + tl.arange(0, WIDTH)[None, :])
        tl.store(out_ptr + row, tl.sum(x, axis=1) / columns)
        part = tl.atomic_add(ticket_ptr, 1)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        ticket = torch.zeros(1, dtype=torch.int32, device=x.device)
        out = torch.empty(rows, dtype=x.dtype, device=x.device)
        mean[(3,)](x, ticket, out, columns, PARTS=rows // 8, ROWS=8, WIDTH=columns)
        return out
