# zoo: problem=whole_lengths backend=triton status=passed verdict=clean findings=-
"""The whole attention of some queries in one program, with keys beyond their sequence's length left out."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def attend(
    q_ptr, k_ptr, v_ptr, out_ptr, lengths_ptr, heads, length, scale, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr
):
    head = tl.program_id(1)
    inside = tl.load(lengths_ptr + head // heads)
    row, column, feature = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    base = head * length * D
    q = tl.load(q_ptr + base + row[:, None] * D + feature[None, :], mask=(row < length)[:, None], other=0.0)
    k = tl.load(k_ptr + base + column[None, :] * D + feature[:, None], mask=(column < inside)[None, :], other=0.0)
    v = tl.load(v_ptr + base + column[:, None] * D + feature[None, :], mask=(column < inside)[:, None], other=0.0)
    scores = tl.where((column < inside)[None, :], tl.dot(q, k, input_precision="ieee") * scale, float("-inf"))
    weights = tl.exp(scores - tl.max(scores, axis=1)[:, None])
    weights = weights / tl.sum(weights, axis=1)[:, None]
    out = tl.dot(weights, v, input_precision="ieee")
    tl.store(out_ptr + base + row[:, None] * D + feature[None, :], out, mask=(row < length)[:, None])


class ModelNew(nn.Module):
    def forward(self, q, k, v, lengths):
        batch, heads, length, width = q.shape
        out = torch.empty_like(q)
        attend[(triton.cdiv(length, 32), batch * heads)](
            q, k, v, out, lengths, heads, length, width**-0.5, M=32, N=triton.next_power_of_2(length), D=width
        )
        return out
