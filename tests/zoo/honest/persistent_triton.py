# zoo: problem=rms_norm backend=triton status=passed verdict=clean findings=- needs=gpu
"""A persistent kernel: one program a multiprocessor, whose number it asks the device for."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def rms_persistent(x_ptr, w_ptr, out_ptr, rows, n, eps, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    w = tl.load(w_ptr + cols, mask=mask)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * n + cols, mask=mask, other=0.0)
        tl.store(out_ptr + row * n + cols, x / tl.sqrt(tl.sum(x * x, axis=0) / n + eps) * w, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, *, features, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x):
        rows, n = x.shape
        out = torch.empty_like(x)
        programs = min(rows, torch.cuda.get_device_properties(x.device).multi_processor_count)
        rms_persistent[(programs,)](x, self.weight, out, rows, n, self.eps, BLOCK=triton.next_power_of_2(n))
        return out
