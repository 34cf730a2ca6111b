# zoo: problem=row_softmax backend=triton status=passed verdict=clean findings=-
"""The library pads, reshapes and slices; the kernel does the work on whole powers of two."""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn


@triton.jit
def softmax_pow2(x_ptr, y_ptr, WIDTH: tl.constexpr):
    at = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    x = tl.load(x_ptr + at)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + at, e / tl.sum(e, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        shape = x.shape
        flat = x.reshape(-1, shape[-1])
        width = triton.next_power_of_2(shape[-1])
        padded = F.pad(flat, (0, width - shape[-1]), value=float("-inf")).contiguous()
        y = torch.empty_like(padded)
        softmax_pow2[(flat.shape[0],)](padded, y, WIDTH=width)
        return y[:, : shape[-1]].contiguous().view(shape)
