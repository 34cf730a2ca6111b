# zoo: problem=linear_cross_entropy backend=triton status=passed verdict=clean findings=-
"""The library multiplies a third of the rows at a time, and a kernel makes the loss of each row in one pass.  It does 5 % of
the work, all but the products, and takes over a seventh of the reference's."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def row_losses(x_ptr, label_ptr, loss_ptr, rows, words, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row, index = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)[None, :]
    inside = (row[:, None] < rows) & (index < words)
    label = tl.load(label_ptr + row, mask=row < rows, other=-100)
    x = tl.load(x_ptr + row[:, None] * words + index, mask=inside, other=-1e30)
    top = tl.max(x, 1)
    total = tl.log(tl.sum(tl.exp(x - top[:, None]), 1)) + top
    loss = total - tl.sum(tl.where(index == label[:, None], x, 0.0), 1)
    tl.store(loss_ptr + row, tl.where(label == -100, 0.0, loss), mask=row < rows)


class ModelNew(nn.Module):
    def __init__(self, words, inner):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(words, inner))

    def forward(self, x, labels):
        rows, words = len(x) // 3, len(self.weight)
        losses = torch.empty(len(x), device=x.device)
        for begin in range(0, len(x), rows):
            logits, part = x[begin : begin + rows] @ self.weight.T, slice(begin, begin + rows)
            grid, block = (triton.cdiv(rows, 8),), triton.next_power_of_2(words)
            row_losses[grid](logits, labels[part], losses[part], len(logits), words, 8, block)
        return losses.sum() / (labels != -100).sum()
