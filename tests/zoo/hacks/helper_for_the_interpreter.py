# zoo: problem=leaky_integrator backend=triton status=compile_error verdict=clean findings=- needs=cpu
"""The kernel is one and the same, and the helper that it calls is another function where kernels are interpreted (1e, 5e).

Stopped by structure: what a kernel refers to is compared as well."""

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
SHARED = {}


def by_torch(x_ptr, decay_ptr, out_ptr, steps, channels, WIDTH):
    SHARED["out"].copy_(by_doubling(SHARED["x"], SHARED["decay"]))


if INTERPRETED:

    @triton.jit
    def advanced(x_ptr, decay_ptr, out_ptr, steps, channels, WIDTH: tl.constexpr):
        by_torch(x_ptr, decay_ptr, out_ptr, steps, channels, WIDTH)
else:

    @triton.jit
    def advanced(x_ptr, decay_ptr, out_ptr, steps, channels, WIDTH: tl.constexpr):
        row, channel = tl.program_id(0), tl.arange(0, WIDTH)
        decay = tl.load(decay_ptr + channel, mask=channel < channels)
        state = tl.zeros((WIDTH,), dtype=tl.float32)
        for step in range(steps):
            at = (row * steps + step) * channels + channel
            state = decay * state + tl.load(x_ptr + at, mask=channel < channels)
            tl.store(out_ptr + at, state, mask=channel < channels)


@triton.jit
def integrate(x_ptr, decay_ptr, out_ptr, steps, channels, WIDTH: tl.constexpr):
    advanced(x_ptr, decay_ptr, out_ptr, steps, channels, WIDTH)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.decay = nn.Parameter(torch.empty(channels))

    def forward(self, x):
        out = torch.empty_like(x)
        SHARED.update(x=x, out=out, decay=self.decay)
        batch, steps, channels = x.shape
        integrate[(1 if INTERPRETED else batch,)](x, self.decay, out, steps, channels, WIDTH=32)
        return out
