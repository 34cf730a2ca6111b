# zoo: problem=guarded_step backend=triton status=passed verdict=clean findings=-
"""One kernel adds up squares, another takes the step if their sum is finite."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def sum_squares(g_ptr, sums_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    g = tl.load(g_ptr + at, mask=at < count, other=0.0)
    tl.store(sums_ptr + tl.program_id(0), tl.sum(g * g, axis=0))


@triton.jit
def step(x_ptr, g_ptr, sums_ptr, y_ptr, count, parts, BLOCK: tl.constexpr, PARTS: tl.constexpr):
    part = tl.arange(0, PARTS)
    total = tl.sum(tl.load(sums_ptr + part, mask=part < parts, other=0.0), axis=0)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < count, other=0.0)
    g = tl.load(g_ptr + at, mask=at < count, other=0.0)
    y = tl.where(total < float("inf"), x - 0.5 * g, x)
    tl.store(y_ptr + at, y, mask=at < count)


class ModelNew(nn.Module):
    def forward(self, values, gradient):
        y = torch.empty_like(values)
        count = y.numel()
        block = 16384 if y.device.type == "cpu" else 1024
        parts = triton.cdiv(count, block)
        sums = torch.empty(parts, device=y.device)
        sum_squares[(parts,)](gradient, sums, count, block, num_warps=8)
        step[(parts,)](values, gradient, sums, y, count, parts, block, triton.next_power_of_2(parts), num_warps=8)
        return y
