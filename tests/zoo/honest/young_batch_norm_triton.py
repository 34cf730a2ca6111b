# zoo: problem=young_batch_norm backend=triton status=passed verdict=clean findings=-
"""Each program scales and shifts one channel of one image by its running statistics."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def normalise(x_ptr, mean_ptr, var_ptr, weight_ptr, bias_ptr, out_ptr, channels, size, eps, BLOCK: tl.constexpr):
    plane, place = tl.program_id(0), tl.arange(0, BLOCK)
    channel, inside = plane % channels, place < size
    scale = tl.load(weight_ptr + channel) / tl.sqrt(tl.load(var_ptr + channel) + eps)
    shift = tl.load(bias_ptr + channel) - tl.load(mean_ptr + channel) * scale
    x = tl.load(x_ptr + plane * size + place, mask=inside, other=0.0)
    tl.store(out_ptr + plane * size + place, tl.maximum(x * scale + shift, 0.0), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        batch, channels, height, width = x.shape
        norm, out, size = self.norm, torch.empty_like(x), height * width
        normalise[(batch * channels,)](
            x, norm.running_mean, norm.running_var, norm.weight, norm.bias, out, channels, size, norm.eps,
            BLOCK=triton.next_power_of_2(size),
        )
        return out
