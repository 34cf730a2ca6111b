# zoo: problem=linear_divergence backend=triton status=passed verdict=clean findings=-
"""The library makes both logits, and a kernel their divergence in one pass: 7 % of the work, in place of more than half of
the reference's."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def log_softmax(x_ptr, at, inside):
    x = tl.load(x_ptr + at, mask=inside, other=-60.0) / 2.0
    x -= tl.max(x, 1)[:, None]
    return x - tl.log(tl.sum(tl.where(inside, tl.exp(x), 0.0), 1))[:, None]


@triton.jit
def divergences(x_ptr, y_ptr, out_ptr, rows, words, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row, index = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)[None, :]
    inside = (row[:, None] < rows) & (index < words)
    at = row[:, None] * words + index
    q, p = log_softmax(x_ptr, at, inside), log_softmax(y_ptr, at, inside)
    middle = tl.log(0.5 * tl.exp(q) + 0.5 * tl.exp(p))
    each = tl.exp(q) * (q - middle) + tl.exp(p) * (p - middle)
    tl.store(out_ptr + row, 0.5 * tl.sum(tl.where(inside, each, 0.0), 1), mask=row < rows)


class ModelNew(nn.Module):
    def __init__(self, words, inner):
        super().__init__()
        self.student = nn.Parameter(torch.empty(words, inner))
        self.teacher = nn.Parameter(torch.empty(words, inner))

    def forward(self, x, y):
        student, teacher = x @ self.student.T, y @ self.teacher.T
        rows, words = student.shape
        out = torch.empty(rows, device=x.device)
        grid, block = (triton.cdiv(rows, 8),), triton.next_power_of_2(words)
        divergences[grid](student, teacher, out, rows, words, ROWS=8, BLOCK=block)
        return out
