# zoo: problem=scaled_add backend=triton status=invalid verdict=clean findings=-
# on a gpu: status=passed verdict=clean findings=-
"""One instruction of the device's own.  Triton's interpreter knows none, so the CPU device cannot judge it."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scaled_add(x_ptr, y_ptr, out_ptr, alpha, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n
    x = tl.load(x_ptr + index, mask=inside) * alpha
    y = tl.load(y_ptr + index, mask=inside)
    total = tl.inline_asm_elementwise("add.f32 $0, $1, $2;", "=f,f,f", [x, y], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(out_ptr + index, total, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x, y, alpha):
        out = torch.empty_like(x)
        block = 16384 if x.device.type == "cpu" else 1024
        scaled_add[(triton.cdiv(x.numel(), block),)](x, y, out, alpha, x.numel(), BLOCK=block, num_warps=8)
        return out
