# zoo: problem=swiglu_half backend=triton status=passed verdict=clean findings=-
"""Copies an input first and works in place on the copy."""

import triton
import triton.language as tl
from torch import nn


@triton.jit
def gate_in_place(gate_ptr, value_ptr, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(gate_ptr + index, mask=index < n, other=0.0).to(tl.float32)
    value = tl.load(value_ptr + index, mask=index < n, other=0.0).to(tl.float32)
    tl.store(gate_ptr + index, (gate / (1.0 + tl.exp(-gate)) * value).to(tl.float16), mask=index < n)


class ModelNew(nn.Module):
    def forward(self, gate, value):
        out = gate.clone()
        block = 16384 if gate.device.type == "cpu" else 1024
        gate_in_place[(triton.cdiv(out.numel(), block),)](out, value, out.numel(), BLOCK=block)
        return out
