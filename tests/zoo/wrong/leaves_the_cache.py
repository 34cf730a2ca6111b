# zoo: problem=key_value_cache backend=triton status=incorrect verdict=clean findings=-
"""Attends to the step's key and value without writing them into the caches: right now, wrong later."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def decode(
    q_ptr,
    k_ptr,
    v_ptr,
    keys_ptr,
    values_ptr,
    lengths_ptr,
    out_ptr,
    BLOCK: tl.constexpr,
    D: tl.constexpr,
):
    row, head, heads = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    inside, places = tl.arange(0, D), tl.arange(0, BLOCK)
    length = tl.load(lengths_ptr + row)
    at = (row * heads + head) * D + inside
    query, key, value = tl.load(q_ptr + at), tl.load(k_ptr + at), tl.load(v_ptr + at)
    cached = ((row * BLOCK + places[:, None]) * heads + head) * D + inside[None, :]
    is_own = (places == length)[:, None]
    keys = tl.where(is_own, key[None, :], tl.load(keys_ptr + cached))
    values = tl.where(is_own, value[None, :], tl.load(values_ptr + cached))
    scores = tl.sum(keys * query[None, :], axis=1) / tl.sqrt(D * 1.0)
    scores = tl.where(places <= length, scores, float("-inf"))
    weights = tl.exp(scores - tl.max(scores, axis=0))
    answer = tl.sum(weights[:, None] * values, axis=0) / tl.sum(weights, axis=0)
    tl.store(out_ptr + at, answer)


class ModelNew(nn.Module):
    def forward(self, query, key, value, keys, values, lengths):
        out = torch.empty_like(query)
        grid = query.shape[:2]
        decode[grid](
            query, key, value, keys, values, lengths, out, BLOCK=keys.shape[1], D=query.shape[2]
        )
        return out
