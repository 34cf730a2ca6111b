# zoo: problem=positive_attention backend=triton status=passed verdict=clean findings=-
"""A head's scores, their softmax and the weighted values in one kernel, a tile of queries each; queries are prepared by another."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scale(x, out, factor, count, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out + at, tl.load(x + at, mask=at < count) * factor, mask=at < count)


@triton.jit
def attend(q, k, v, out, length, tile: tl.constexpr, block: tl.constexpr, width: tl.constexpr):
    first = tl.program_id(1) * length * width
    row = tl.program_id(0) * tile + tl.arange(0, tile)
    column, key = tl.arange(0, width), tl.arange(0, block)
    own = first + row[:, None] * width + column[None]
    other = first + key[:, None] * width + column[None]
    queries = tl.load(q + own, mask=row[:, None] < length, other=0.0)
    keys = tl.load(k + other, mask=key[:, None] < length, other=0.0)
    scores = tl.dot(queries, tl.trans(keys), input_precision="ieee")
    scores = tl.where(key[None] < length, scores, float("-inf"))
    weights = tl.exp(scores - tl.max(scores, axis=1)[:, None])
    values = tl.load(v + other, mask=key[:, None] < length, other=0.0)
    found = tl.dot(weights, values, input_precision="ieee") / tl.sum(weights, axis=1)[:, None]
    tl.store(out + own, tl.maximum(found, 0.0), mask=row[:, None] < length)


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        heads, length, width = q.shape
        count, size = q.numel(), 16384 if q.device.type == "cpu" else 1024
        scaled, out = torch.empty_like(q), torch.empty_like(q)
        scale[(triton.cdiv(count, size),)](q, scaled, width**-0.5, count, size, num_warps=8)
        grid = (triton.cdiv(length, 32), heads)
        block = triton.next_power_of_2(length)
        attend[grid](scaled, k, v, out, length, 32, block, width, num_warps=8)
        return out
