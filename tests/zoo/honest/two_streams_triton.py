# zoo: problem=swiglu_half backend=triton status=passed verdict=clean findings=- needs=gpu
"""Half of the work on a second stream, which waits for its inputs and is waited for: streams used rightly."""

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
        self.side = torch.cuda.Stream()

    def forward(self, gate, value):
        out = torch.empty_like(gate)
        half = gate.shape[0] // 2
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self._launch(gate[half:], value[half:], out[half:])
        self._launch(gate[:half], value[:half], out[:half])
        torch.cuda.current_stream().wait_stream(self.side)
        return out

    def _launch(self, gate, value, out):
        swiglu[(triton.cdiv(gate.numel(), 1024),)](gate, value, out, gate.numel(), BLOCK=1024)
