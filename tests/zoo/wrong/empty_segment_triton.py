# zoo: problem=segment_peaks backend=triton status=incorrect verdict=clean findings=-
"""An empty segment holds the number that its maximum begins with."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def peaks_kernel(x_ptr, segment_ptr, out_ptr, rows, width, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    columns = tl.arange(0, WIDTH)
    peak = tl.full((WIDTH,), -1e30, tl.float32)
    for start in range(0, rows, ROWS):
        at = start + tl.arange(0, ROWS)
        hit = tl.load(segment_ptr + at, mask=at < rows, other=-1) == tl.program_id(0)
        held = hit[:, None] & (columns < width)[None, :]
        x = tl.load(x_ptr + at[:, None] * width + columns[None, :], mask=held, other=-1e30)
        peak = tl.maximum(peak, tl.max(x, axis=0))
    tl.store(out_ptr + tl.program_id(0) * width + columns, peak, mask=columns < width)


class ModelNew(nn.Module):
    def __init__(self, segments):
        super().__init__()
        self.segments = segments

    def forward(self, x, segment):
        rows, width = x.shape
        out = torch.empty(self.segments, width, device=x.device)
        block = 1024 if x.device.type == "cpu" else 128
        wide = triton.next_power_of_2(width)
        peaks_kernel[(self.segments,)](x, segment, out, rows, width, ROWS=block, WIDTH=wide)
        return out
