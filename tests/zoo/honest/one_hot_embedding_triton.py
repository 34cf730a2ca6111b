# zoo: problem=one_hot_embedding backend=triton status=passed verdict=clean findings=- speedup=>1
"""Copies the wanted rows of the table; the one-hot matrix never exists.  Wins even in the interpreter."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def gather_rows(ids_ptr, table_ptr, out_ptr, tokens, width, TOKENS: tl.constexpr, WIDTH: tl.constexpr):
    token = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    inside = (token < tokens) & (column < width)
    row = tl.load(ids_ptr + token, mask=token < tokens, other=0)
    tl.store(out_ptr + token * width + column, tl.load(table_ptr + row * width + column, mask=inside), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.table = nn.Parameter(torch.empty(vocabulary, width))  # filled from the reference

    def forward(self, ids):
        tokens, width = ids.numel(), self.table.shape[1]
        out = torch.empty((tokens, width), dtype=self.table.dtype, device=ids.device)
        per_program = 512 if ids.device.type == "cpu" else 32  # the interpreter pays per program
        gather_rows[(triton.cdiv(tokens, per_program),)](
            ids,
            self.table,
            out,
            tokens,
            width,
            TOKENS=per_program,
            WIDTH=triton.next_power_of_2(width),
            num_warps=8,
        )
        return out
