# zoo: problem=frozen_batch_norm backend=triton status=passed verdict=clean findings=- speedup=<1
"""One multiply-add per element; statistics and affine part come from the module's buffers and parameters."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def batch_norm(
    x_ptr,
    mean_ptr,
    variance_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    planes,
    channels,
    size,
    eps,
    PLANES: tl.constexpr,
    WIDTH: tl.constexpr,
):
    plane = tl.program_id(0) * PLANES + tl.arange(0, PLANES)[:, None]  # a plane is one channel of one image
    pixel = tl.arange(0, WIDTH)[None, :]
    known = plane < planes
    channel = plane % channels
    scale = tl.load(weight_ptr + channel, mask=known, other=0.0)
    scale = scale / tl.sqrt(tl.load(variance_ptr + channel, mask=known, other=1.0) + eps)
    mean = tl.load(mean_ptr + channel, mask=known, other=0.0)
    bias = tl.load(bias_ptr + channel, mask=known, other=0.0)
    inside = known & (pixel < size)
    x = tl.load(x_ptr + plane * size + pixel, mask=inside, other=0.0)
    tl.store(out_ptr + plane * size + pixel, (x - mean) * scale + bias, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("variance", torch.ones(channels))

    def forward(self, x):
        batch, channels, height, width = x.shape
        out = torch.empty_like(x)
        planes, size = batch * channels, height * width
        per_program = 128 if x.device.type == "cpu" else 8  # the interpreter pays per program
        batch_norm[(triton.cdiv(planes, per_program),)](
            x,
            self.mean,
            self.variance,
            self.weight,
            self.bias,
            out,
            planes,
            channels,
            size,
            1e-5,
            PLANES=per_program,
            WIDTH=triton.next_power_of_2(size),
            num_warps=8,
        )
        return out
