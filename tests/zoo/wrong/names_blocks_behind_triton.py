# zoo: problem=chosen_blocks backend=triton status=incorrect verdict=clean findings=-
"""It names a block behind the query where the reference has -1: a place, whose score is that of every block left."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def choose(q_ptr, k_ptr, out_ptr, queries, blocks, width, chosen, scale, Q: tl.constexpr, B: tl.constexpr):
    rows, places = tl.program_id(0) * Q + tl.arange(0, Q), tl.arange(0, B)
    scores = tl.zeros([Q, B], dtype=tl.float32)
    for i in range(width):
        q = tl.load(q_ptr + rows.to(tl.int64) * width + i.to(tl.int64), mask=rows < queries, other=0.0)
        k = tl.load(k_ptr + places * width + i, mask=places < blocks, other=0.0)
        scores += q[:, None] * k[None, :]
    own = rows * blocks // queries
    sure = (places[None, :] == 0) | (places[None, :] == own[:, None])
    scores = tl.where(sure, 2.0, tl.sigmoid(scores * scale))
    scores = tl.where(places[None, :] > own[:, None], -1.0, scores)
    for i in range(chosen):
        best = tl.max(scores, 1)
        last = tl.max(tl.where(scores == best[:, None], places[None, :], -1), 1)
        tl.store(out_ptr + rows * chosen + i.to(tl.int32), last, mask=rows < queries)
        scores = tl.where(places[None, :] == last[:, None], -2.0, scores)


class ModelNew(nn.Module):
    def forward(self, queries, keys):
        count, width = queries.shape
        out = torch.empty(count, 4, dtype=torch.int32, device=queries.device)
        block = 128
        choose[(triton.cdiv(count, block),)](
            queries, keys, out, count, keys.shape[0], width, 4, width**-0.5, Q=block, B=16
        )
        return out
