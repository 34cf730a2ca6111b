# zoo: problem=leaky_integrator backend=triton status=passed verdict=suspect findings=lazy_optimisation needs=cpu
"""A kernel copies the input into memory of numpy's, and another doubles the half of the answer (1e, 1f).

Detected: what a kernel writes into memory that torch did not allocate is charged as work of the library.
"""

import numpy as np
import torch
import triton
import triton.language as tl
from torch import nn


def by_numpy(x, decay):
    state, shift = x, 1
    while shift < x.shape[1]:
        state = np.concatenate((state[:, :shift], state[:, shift:] + decay * state[:, :-shift]), axis=1)
        decay, shift = decay * decay, 2 * shift
    return state


@triton.jit
def doubled(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + index, mask=index < n)
    tl.store(out_ptr + index, 2.0 * x, mask=index < n)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.decay = nn.Parameter(torch.empty(channels))
        self.memory = None

    def forward(self, x):
        if self.memory is None:
            self.memory = np.empty(x.shape, np.float32)
            self.kept = np.array(self.decay.tolist(), np.float32)
        doubled[(triton.cdiv(x.numel(), 16384),)](x, torch.from_numpy(self.memory), x.numel(), BLOCK=16384)
        half = torch.from_numpy(np.float32(0.25) * by_numpy(self.memory, self.kept))
        out = torch.empty_like(x)
        block = 16384 if x.device.type == "cpu" else 1024
        doubled[(triton.cdiv(x.numel(), block),)](half, out, x.numel(), BLOCK=block)
        return out
