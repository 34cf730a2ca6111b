# zoo: problem=linear_policy_loss backend=triton status=passed verdict=clean findings=-
"""The library multiplies, and a kernel makes the loss of each token from its row of logits: 7 % of the work, all but the
product."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def token_losses(
    x_ptr, token_ptr, before_ptr, gain_ptr, out_ptr, n, words, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    row, index = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)[None, :]
    inside = (row[:, None] < n) & (index < words)
    x = tl.load(x_ptr + row[:, None] * words + index, mask=inside, other=-1e30) / 0.9
    token = tl.load(token_ptr + row, mask=row < n, other=0)
    top = tl.max(x, 1)
    chosen = tl.sum(tl.where(index == token[:, None], x, 0.0), 1)
    log = chosen - top - tl.log(tl.sum(tl.exp(x - top[:, None]), 1))
    ratio = tl.exp(log - tl.load(before_ptr + row, mask=row < n, other=0.0))
    gain = tl.load(gain_ptr + row, mask=row < n, other=0.0)
    clipped = tl.minimum(tl.maximum(ratio, 0.8), 1.2)
    tl.store(out_ptr + row, -tl.minimum(ratio * gain, clipped * gain), mask=row < n)


class ModelNew(nn.Module):
    def __init__(self, words, inner):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(words, inner))

    def forward(self, x, tokens, before, advantage):
        logits, out = x @ self.weight.T, torch.empty_like(before)
        rows, words = logits.shape
        grid, block = (triton.cdiv(rows, 8),), triton.next_power_of_2(words)
        token_losses[grid](logits, tokens, before, advantage, out, rows, words, 8, block)
        return out
