# zoo: problem=squared_error backend=triton status=passed verdict=clean findings=-
"""A loss: partial sums into a workspace that is kept, then one program that adds them up."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def partial_sums(p_ptr, t_ptr, sums_ptr, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n
    gap = tl.load(p_ptr + index, mask=inside, other=0.0) - tl.load(t_ptr + index, mask=inside, other=0.0)
    tl.store(sums_ptr + tl.program_id(0), tl.sum(gap * gap, axis=0))


@triton.jit
def mean_of_sums(sums_ptr, out_ptr, programs, n, WIDTH: tl.constexpr):
    index = tl.arange(0, WIDTH)
    tl.store(out_ptr, tl.sum(tl.load(sums_ptr + index, mask=index < programs, other=0.0), axis=0) / n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self._workspaces = {}

    def forward(self, predictions, targets):
        n = predictions.numel()
        programs = triton.cdiv(n, 4096)
        key = (predictions.device, programs)
        if key not in self._workspaces:
            self._workspaces[key] = torch.empty(programs, device=predictions.device)
        sums, out = self._workspaces[key], torch.empty((), device=predictions.device)
        partial_sums[(programs,)](predictions, targets, sums, n, BLOCK=4096, num_warps=8)
        mean_of_sums[(1,)](sums, out, programs, n, WIDTH=triton.next_power_of_2(programs))
        return out
