# zoo: problem=clamped_rows backend=triton status=passed verdict=clean findings=-
"""As many programs as the device has processors, each with every so many blocks: a persistent kernel."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def clamp(x_ptr, out_ptr, count, low, high, BLOCK: tl.constexpr):
    for block in tl.range(tl.program_id(0), tl.cdiv(count, BLOCK), tl.num_programs(0)):
        at = block * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < count)
        tl.store(out_ptr + at, tl.minimum(tl.maximum(x, low), high), mask=at < count)


class ModelNew(nn.Module):
    def forward(self, x):
        block = 16384 if x.device.type == "cpu" else 1024
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        out = torch.empty_like(x)
        clamp[(properties.multi_processor_count,)](x, out, x.numel(), -50.0, 50.0, BLOCK=block)
        return out
