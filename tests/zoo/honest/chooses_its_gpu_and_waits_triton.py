# zoo: problem=scaled_add backend=triton status=passed verdict=clean findings=-
"""Makes the device of its inputs the current one, waits for its kernel, and restores the choice."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scaled_add(x_ptr, y_ptr, out_ptr, alpha, elements, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < elements
    total = alpha * tl.load(x_ptr + place, mask=inside) + tl.load(y_ptr + place, mask=inside)
    tl.store(out_ptr + place, total, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x, y, alpha):
        before = torch.cuda.current_device()
        torch.cuda.set_device(x.device)
        out = torch.empty_like(x)
        scaled_add[(triton.cdiv(x.numel(), 1024),)](x, y, out, alpha, x.numel(), BLOCK=1024)
        torch.cuda.synchronize()
        torch.cuda.set_device(before)
        return out
