# zoo: problem=small_convolution backend=triton status=passed verdict=clean findings=-
"""Products on tensor cores in TF32, the default of `tl.dot`, as the library does on a GPU."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def convolve(x_ptr, w_ptr, b_ptr, y_ptr, H, W, C: tl.constexpr, KINDS: tl.constexpr, PIXELS: tl.constexpr):
    image = tl.program_id(1)
    rows, columns = H - 2, W - 2
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    inside = pixel < rows * columns
    channel, kind = tl.arange(0, C), tl.arange(0, KINDS)
    acc = tl.zeros((PIXELS, KINDS), dtype=tl.float32)
    for step in range(9):
        corner = (pixel // columns + step // 3) * W + pixel % columns + step % 3
        x = tl.load(x_ptr + (image * C + channel[None, :]) * H * W + corner[:, None], mask=inside[:, None], other=0.0)
        w = tl.load(w_ptr + (kind[None, :] * C + channel[:, None]) * 9 + step)
        acc += tl.dot(x, w)
    acc += tl.load(b_ptr + kind)[None, :]
    y = y_ptr + (image * KINDS + kind[None, :]) * rows * columns + pixel[:, None]
    tl.store(y, acc, mask=inside[:, None])


class ModelNew(nn.Module):
    def __init__(self, channels, kinds):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(kinds, channels, 3, 3))
        self.bias = nn.Parameter(torch.randn(kinds))

    def forward(self, x):
        (images, channels, height, width), kinds = x.shape, self.weight.shape[0]
        y = torch.empty(images, kinds, height - 2, width - 2, device=x.device)
        pixels = (height - 2) * (width - 2)
        grid = (triton.cdiv(pixels, 128), images)
        convolve[grid](x, self.weight, self.bias, y, height, width, channels, kinds, 128)
        return y
