# zoo: problem=turned_points backend=triton status=passed verdict=clean findings=-
"""One pass over quaternions and points; the lengths are divided out at the end, as a factor of the turn."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def turn(quaternions_ptr, points_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    w = tl.load(quaternions_ptr + 4 * at, mask=inside, other=1.0)
    a = tl.load(quaternions_ptr + 4 * at + 1, mask=inside, other=0.0)
    b = tl.load(quaternions_ptr + 4 * at + 2, mask=inside, other=0.0)
    c = tl.load(quaternions_ptr + 4 * at + 3, mask=inside, other=0.0)
    x = tl.load(points_ptr + 3 * at, mask=inside, other=0.0)
    y = tl.load(points_ptr + 3 * at + 1, mask=inside, other=0.0)
    z = tl.load(points_ptr + 3 * at + 2, mask=inside, other=0.0)
    twice = 2.0 / (w * w + a * a + b * b + c * c)
    u, v, t = b * z - c * y, c * x - a * z, a * y - b * x
    tl.store(out_ptr + 3 * at, x + twice * (w * u + b * t - c * v), mask=inside)
    tl.store(out_ptr + 3 * at + 1, y + twice * (w * v + c * u - a * t), mask=inside)
    tl.store(out_ptr + 3 * at + 2, z + twice * (w * t + a * v - b * u), mask=inside)


class ModelNew(nn.Module):
    def forward(self, quaternions, points):
        out, n = torch.empty_like(points), len(points)
        block = 16384 if points.device.type == "cpu" else 256
        turn[(triton.cdiv(n, block),)](quaternions, points, out, n, BLOCK=block)
        return out
