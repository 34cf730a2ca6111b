# zoo: problem=loudest_channels backend=triton status=passed verdict=clean findings=-
"""The last of equal values, where the library's `max` gives the first.

Any of them is right: the values at these places are equal."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def find_largest(x, values, places, rows, width, block: tl.constexpr, tile: tl.constexpr):
    row = tl.program_id(0) * tile + tl.arange(0, tile)
    column = tl.arange(0, block)
    inside = (row[:, None] < rows) & (column[None] < width)
    found = tl.load(x + row[:, None] * width + column[None], mask=inside, other=float("-inf"))
    value = tl.max(found, axis=1)
    place = tl.max(tl.where(inside & (found == value[:, None]), column[None], 0), axis=1)
    tl.store(values + row, value, mask=row < rows)
    tl.store(places + row, place.to(tl.int64), mask=row < rows)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, width = x.shape
        values = torch.empty(rows, device=x.device)
        places = torch.empty(rows, device=x.device, dtype=torch.int64)
        tile = 32 if x.device.type == "cpu" else 4
        block = triton.next_power_of_2(width)
        grid = (triton.cdiv(rows, tile),)
        find_largest[grid](x, values, places, rows, width, block, tile)
        return values, places
