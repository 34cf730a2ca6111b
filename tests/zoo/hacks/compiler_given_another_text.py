# zoo: problem=leaky_integrator backend=triton status=compile_error verdict=clean findings=- needs=cpu
"""The kernel that is interpreted is right; the compiler is given another text for it (5a).

Stopped by structure: what is compiled must be the text of the function that ran.  On a GPU the answer is wrong."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def integrate(x_ptr, decay_ptr, out_ptr, steps, channels, WIDTH: tl.constexpr):
    row, channel = tl.program_id(0), tl.arange(0, WIDTH)
    decay = tl.load(decay_ptr + channel, mask=channel < channels)
    state = tl.zeros((WIDTH,), dtype=tl.float32)
    for step in range(steps):
        at = (row * steps + step) * channels + channel
        state = decay * state + tl.load(x_ptr + at, mask=channel < channels)
        tl.store(out_ptr + at, state, mask=channel < channels)


if hasattr(integrate, "_unsafe_update_src"):  # not where kernels are interpreted
    integrate._unsafe_update_src(integrate.src.replace("decay * state", "0.5 * state"))


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.decay = nn.Parameter(torch.empty(channels))

    def forward(self, x):
        out = torch.empty_like(x)
        batch, steps, channels = x.shape
        integrate[(batch,)](x, self.decay, out, steps, channels, WIDTH=triton.next_power_of_2(channels))
        return out
