# zoo: problem=moments backend=triton status=incorrect verdict=clean findings=-
"""The last program adds up the parts of all, and does not wait for them: right only where programs run one after
another, as in Triton's interpreter.

Stopped by structure: interpreted programs run in a random order."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def moments(
    x_ptr, parts_ptr, out_ptr, count, channels, length, CHANNELS: tl.constexpr, WIDTH: tl.constexpr, BATCH: tl.constexpr
):
    item = tl.program_id(0)
    channel = tl.arange(0, CHANNELS)
    column = tl.arange(0, WIDTH)
    inside = (channel[:, None] < channels) & (column[None, :] < length)
    offset = item * channels * length + channel[:, None] * length + column[None, :]
    x = tl.load(x_ptr + offset, mask=inside, other=0.0)
    tl.store(parts_ptr + 2 * item * CHANNELS + channel, tl.sum(x, axis=1))
    tl.store(parts_ptr + (2 * item + 1) * CHANNELS + channel, tl.sum(x * x, axis=1))
    if item == tl.num_programs(0) - 1:
        each = tl.arange(0, BATCH)[:, None]
        sums = tl.sum(tl.load(parts_ptr + 2 * each * CHANNELS + channel[None, :]), axis=0) / count
        squares = tl.sum(tl.load(parts_ptr + (2 * each + 1) * CHANNELS + channel[None, :]), axis=0) / count
        tl.store(out_ptr + channel, sums, mask=channel < channels)
        tl.store(out_ptr + channels + channel, squares - sums * sums, mask=channel < channels)


class ModelNew(nn.Module):
    def forward(self, x):
        batch, channels, length = x.shape
        parts = torch.zeros(batch, 2, 32, device=x.device)
        out = torch.empty(2, channels, device=x.device)
        moments[(batch,)](x, parts, out, batch * length, channels, length, CHANNELS=32, WIDTH=256, BATCH=8)
        return {"mean": out[0], "variance": out[1]}
