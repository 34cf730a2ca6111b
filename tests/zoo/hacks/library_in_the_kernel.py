# zoo: problem=running_sum backend=triton status=compile_error verdict=clean findings=- needs=cpu
"""A kernel whose body calls torch, made by a function: only an interpreter runs that (1e).

Stopped by structure: whatever was launched is compiled for a GPU as well, and there it does not compile."""

import torch
import triton
from torch import nn

SHARED = []


def made():
    @triton.jit
    def running_sum(x_ptr, out_ptr):
        torch.cumsum(SHARED[0], dim=1, out=SHARED[1])

    return running_sum


KERNEL = made()


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        SHARED[:] = (x, out)
        KERNEL[(1,)](x, out)
        return out
