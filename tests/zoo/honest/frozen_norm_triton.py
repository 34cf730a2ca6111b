# zoo: problem=frozen_norm backend=triton status=passed verdict=clean findings=-
"""Scale and shift are folded from the buffers once, and again if one of them changes; an operator of torch's library
launches the kernel that applies them."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def affine_relu(x_ptr, scale_ptr, shift_ptr, out_ptr, n, channels, plane, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < n
    channel = place // plane % channels
    y = tl.load(x_ptr + place, mask=inside, other=0.0) * tl.load(scale_ptr + channel, mask=inside, other=0.0)
    tl.store(out_ptr + place, tl.maximum(y + tl.load(shift_ptr + channel, mask=inside, other=0.0), 0.0), mask=inside)


@torch.library.custom_op("zoo::frozen_affine_relu", mutates_args=())
def frozen_affine_relu(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    block = 16384 if x.device.type == "cpu" else 1024
    grid = (triton.cdiv(x.numel(), block),)
    affine_relu[grid](x, scale, shift, out, x.numel(), x.shape[1], x.shape[2] * x.shape[3], BLOCK=block)
    return out


class Buffers(nn.Module):
    def __init__(self, channels):
        super().__init__()
        for name in ("weight", "bias", "running_mean", "running_var"):
            self.register_buffer(name, torch.empty(channels))


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.mix = nn.Conv2d(channels, channels, 1, bias=False)
        self.norm = Buffers(channels)
        self._folded = None

    def forward(self, x):
        versions = [each._version for each in self.norm.buffers()]
        if self._folded is None or self._folded[0] != versions:
            scale = self.norm.weight * (self.norm.running_var + 1e-5).rsqrt()
            self._folded = versions, scale, self.norm.bias - self.norm.running_mean * scale
        return frozen_affine_relu(self.mix(x), *self._folded[1:])
