# zoo: problem=swiglu_half backend=triton status=passed verdict=clean findings=-
"""Prints once, waits for the device where there is one, and looks at the clock for its own statistics."""

import time

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def swiglu(gate_ptr, value_ptr, out_ptr, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(gate_ptr + index, mask=index < n, other=0.0).to(tl.float32)
    value = tl.load(value_ptr + index, mask=index < n, other=0.0).to(tl.float32)
    tl.store(out_ptr + index, (gate * tl.sigmoid(gate) * value).to(tl.float16), mask=index < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.spent = 0.0
        print("ModelNew: using the fused kernel")

    def forward(self, gate, value):
        began = time.perf_counter()
        out = torch.empty_like(gate)
        block = 16384 if gate.device.type == "cpu" else 1024
        swiglu[(triton.cdiv(gate.numel(), block),)](gate, value, out, gate.numel(), BLOCK=block)
        if gate.is_cuda:
            torch.cuda.synchronize()
        self.spent += time.perf_counter() - began
        return out
