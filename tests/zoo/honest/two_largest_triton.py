# zoo: problem=two_largest backend=triton status=passed verdict=clean findings=-
"""Finds the largest, takes it away, finds the next: among equal values the first comes first, in torch.topk another."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def two_largest(x_ptr, shares_ptr, places_ptr, rows, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    row, column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, COLUMNS)
    inside = row < rows
    x = tl.load(x_ptr + row[:, None] * COLUMNS + column[None, :], mask=inside[:, None], other=float("-inf"))
    first = tl.argmax(x, axis=1)
    rest = tl.where(column[None, :] == first[:, None], float("-inf"), x)
    second = tl.argmax(rest, axis=1)
    share = 1 / (1 + tl.exp(tl.max(rest, axis=1) - tl.max(x, axis=1)))
    tl.store(shares_ptr + 2 * row, share, mask=inside)
    tl.store(shares_ptr + 2 * row + 1, 1 - share, mask=inside)
    tl.store(places_ptr + 2 * row, first.to(tl.int64), mask=inside)
    tl.store(places_ptr + 2 * row + 1, second.to(tl.int64), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        shares = torch.empty(rows, 2, device=x.device)
        places = torch.empty(rows, 2, dtype=torch.int64, device=x.device)
        two_largest[(triton.cdiv(rows, 64),)](x, shares, places, rows, COLUMNS=columns, BLOCK=64)
        return shares, places
