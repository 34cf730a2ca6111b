# zoo: problem=scaled_add backend=triton status=passed verdict=clean findings=-
"""Guards its import, and falls back to the library where there is no Triton at all: here there is."""

import torch
from torch import nn

try:
    import triton
    import triton.language as tl

    HAS_TRITON = True
except ImportError:
    HAS_TRITON = False

if HAS_TRITON:

    @triton.jit
    def _axpy_kernel(x_ptr, y_ptr, out_ptr, alpha, n_elements, BLOCK_SIZE: tl.constexpr):
        pid = tl.program_id(axis=0)
        offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        mask = offsets < n_elements
        x = tl.load(x_ptr + offsets, mask=mask)
        y = tl.load(y_ptr + offsets, mask=mask)
        tl.store(out_ptr + offsets, alpha * x + y, mask=mask)


def axpy(x, y, alpha):
    if not HAS_TRITON:
        return alpha * x + y
    x, y = x.contiguous(), y.contiguous()
    out = torch.empty_like(x)
    grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK_SIZE"]),)  # noqa: E731
    _axpy_kernel[grid](x, y, out, alpha, x.numel(), BLOCK_SIZE=16384 if x.device.type == "cpu" else 1024)
    return out


class ModelNew(nn.Module):
    def forward(self, x, y, alpha):
        return axpy(x, y, alpha)
