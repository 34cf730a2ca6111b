# zoo: problem=layer_norm backend=triton status=passed verdict=clean findings=-
"""Seeds the generators and draws weights of its own while it is constructed; the reference's replace them."""

import random

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def layer_norm(x_ptr, y_ptr, w_ptr, b_ptr, n, eps, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    row, cols = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None], tl.arange(0, BLOCK)[None, :]
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=0.0)
    centred = tl.where(cols < n, x - tl.sum(x, axis=1)[:, None] / n, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=1)[:, None] / n + eps)
    w, b = tl.load(w_ptr + cols, mask=cols < n), tl.load(b_ptr + cols, mask=cols < n)
    tl.store(y_ptr + row * n + cols, centred * scale * w + b, mask=cols < n)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        torch.manual_seed(42)
        random.seed(42)
        self.norm = nn.LayerNorm(features)
        nn.init.uniform_(self.norm.weight)

    def forward(self, x):
        rows, n = x.shape
        y = torch.empty_like(x)
        per_program = 16 if x.device.type == "cpu" else 1
        layer_norm[(rows // per_program,)](
            x, y, self.norm.weight, self.norm.bias, n, self.norm.eps, BLOCK=1024, ROWS=per_program
        )
        return y
