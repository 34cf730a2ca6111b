# zoo: problem=row_softmax backend=triton status=passed verdict=clean findings=- needs=gpu
"""Compiled beforehand with `warmup`, whose result is launched with a grid of its own: the way of Triton's tutorials."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def softmax(out_ptr, x_ptr, rows, columns, WIDTH: tl.constexpr, num_stages: tl.constexpr):
    column = tl.arange(0, WIDTH)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=num_stages):
        x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=float("-inf"))
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + row * columns + column, e / tl.sum(e, axis=0), mask=column < columns)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.compiled = {}

    def forward(self, x):
        rows, columns = x.shape
        out, width, stages = torch.empty_like(x), triton.next_power_of_2(columns), 2
        if (rows, columns) not in self.compiled:
            self.compiled[rows, columns] = softmax.warmup(
                out, x, rows, columns, WIDTH=width, num_stages=stages, num_warps=8, grid=(1,)
            )
        self.compiled[rows, columns][min(rows, 132), 1, 1](out, x, rows, columns, width, stages)
        return out
