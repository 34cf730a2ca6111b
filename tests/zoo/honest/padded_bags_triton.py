# zoo: problem=padded_bags backend=triton status=passed verdict=clean findings=-
"""A row to a program: the items' embeddings are gathered, masked and added."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def mean_of_items(ids_ptr, table_ptr, out_ptr, items, width, ITEMS: tl.constexpr, WIDTH: tl.constexpr):
    row, item, column = tl.program_id(0), tl.arange(0, ITEMS), tl.arange(0, WIDTH)
    ids = tl.load(ids_ptr + row * items + item, mask=item < items, other=0)
    kept = ids != 0
    there = kept[:, None] & (column < width)[None, :]
    found = tl.load(table_ptr + ids[:, None] * width + column[None, :], mask=there, other=0.0)
    count = tl.maximum(tl.sum(kept.to(tl.float32), axis=0), 1.0)
    tl.store(out_ptr + row * width + column, tl.sum(found, axis=0) / count, mask=column < width)


class ModelNew(nn.Module):
    def __init__(self, entries, width):
        super().__init__()
        self.table = nn.Embedding(entries, width)

    def forward(self, ids):
        rows, items = ids.shape
        width = self.table.embedding_dim
        out = torch.empty(rows, width, device=ids.device)
        sizes = {"ITEMS": triton.next_power_of_2(items), "WIDTH": triton.next_power_of_2(width)}
        mean_of_items[(rows,)](ids, self.table.weight, out, items, width, **sizes)
        return out
