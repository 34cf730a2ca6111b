# zoo: problem=positive_matmul backend=triton status=passed verdict=clean findings=-
"""Tiles of a product in single precision throughout."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def multiply(a_ptr, b_ptr, out_ptr, m, n, k, ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, k, INNER):
        inner = start + tl.arange(0, INNER)
        a = tl.load(a_ptr + row * k + inner[None, :], mask=row < m, other=0.0)
        b = tl.load(b_ptr + inner[:, None] * n + column, mask=column < n, other=0.0)
        total += tl.dot(a, b, input_precision="ieee")
    tl.store(out_ptr + row * n + column, total, mask=(row < m) & (column < n))


class ModelNew(nn.Module):
    def forward(self, a, b):
        m, k = a.shape
        n = b.shape[1]
        out = torch.empty((m, n), dtype=a.dtype, device=a.device)
        rows, columns, inner = (128, 128, 1024) if a.device.type == "cpu" else (64, 64, 32)
        grid = (triton.cdiv(m, rows), triton.cdiv(n, columns))
        multiply[grid](a, b, out, m, n, k, ROWS=rows, COLUMNS=columns, INNER=inner)
        return out
