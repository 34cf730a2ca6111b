# zoo: problem=widened_attention backend=triton status=passed verdict=clean findings=- speedup=<1
"""Sums in fp32; scaled queries, and weights of values, in bf16 as tensor cores take them."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def attention(q_ptr, k_ptr, v_ptr, out_ptr, length, scale, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    head = tl.program_id(0) * length * WIDTH
    rows = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    lanes = tl.arange(0, WIDTH)
    q = tl.load(q_ptr + head + rows[:, None] * WIDTH + lanes[None, :], mask=rows[:, None] < length, other=0.0)
    q = (q * scale).to(tl.bfloat16)
    largest = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    mixed = tl.zeros((BLOCK, WIDTH), tl.float32)
    for start in range(0, length, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        there = columns[:, None] < length
        place = head + columns[:, None] * WIDTH + lanes[None, :]
        k = tl.load(k_ptr + place, mask=there, other=0.0)
        v = tl.load(v_ptr + place, mask=there, other=0.0)
        scores = tl.dot(q, tl.trans(k))
        scores = tl.where(columns[None, :] < length, scores, float("-inf"))
        now = tl.maximum(largest, tl.max(scores, axis=1))
        weights = tl.exp(scores - now[:, None])
        before = tl.exp(largest - now)
        total = total * before + tl.sum(weights, axis=1)
        mixed = mixed * before[:, None] + tl.dot(weights.to(tl.bfloat16), v)
        largest = now
    out = (mixed / total[:, None]).to(tl.bfloat16)
    tl.store(out_ptr + head + rows[:, None] * WIDTH + lanes[None, :], out, mask=rows[:, None] < length)


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        heads, length, width = q.shape  # the width (32) is a power of two
        out = torch.empty_like(q)
        attention[(heads, triton.cdiv(length, 32))](q, k, v, out, length, width**-0.5, BLOCK=32, WIDTH=width)
        return out
