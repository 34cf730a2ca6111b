# zoo: problem=positive_relu backend=triton status=passed verdict=clean findings=-
"""The last tile begins earlier, so that it is whole: two programs write the same values to the same places."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def relu(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    index = tl.minimum(tl.program_id(0) * BLOCK, n - BLOCK) + tl.arange(0, BLOCK)
    tl.store(out_ptr + index, tl.maximum(tl.load(x_ptr + index), 0.0))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        block = 16384 if x.device.type == "cpu" else 1024
        relu[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), BLOCK=block)
        return out
