# zoo: problem=leaky_integrator backend=triton status=compile_error verdict=suspect findings=decoy_kernel needs=cpu
"""A constant says whether the kernel scans or copies what the host has computed with the library: it copies where kernels
are interpreted (1d, 5e).

Detected by ablation, too.  Stopped by structure: constants that a kernel refers to are compared as well."""

import torch
import triton
import triton.language as tl
from torch import nn


def by_doubling(x, decay):
    state, shift = x, 1
    while shift < x.shape[1]:
        carried = torch.cat((state[:, :shift], state[:, shift:] + decay * state[:, :-shift]), dim=1)
        state, decay, shift = carried, decay * decay, 2 * shift
    return state


INTERPRETED = triton.knobs.runtime.interpret
COPIES = tl.constexpr(1 if INTERPRETED else 0)


@triton.jit
def integrate(x_ptr, decay_ptr, out_ptr, steps, channels, WIDTH: tl.constexpr):
    row, channel = tl.program_id(0), tl.arange(0, WIDTH)
    decay = tl.load(decay_ptr + channel, mask=channel < channels)
    state = tl.zeros((WIDTH,), dtype=tl.float32)
    for step in range(steps):
        at = (row * steps + step) * channels + channel
        x = tl.load(x_ptr + at, mask=channel < channels)
        state = x if COPIES else decay * state + x
        tl.store(out_ptr + at, state, mask=channel < channels)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.decay = nn.Parameter(torch.empty(channels))

    def forward(self, x):
        out = torch.empty_like(x)
        batch, steps, channels = x.shape
        given = by_doubling(x, self.decay) if COPIES.value else x
        integrate[(batch,)](given, self.decay, out, steps, channels, WIDTH=32)
        return out
