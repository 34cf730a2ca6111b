# zoo: problem=layer_norm backend=triton status=passed verdict=clean findings=- needs=gpu
"""Records a graph once, copies each input into it and replays: launches that nobody sees, and right answers."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def layer_norm(x_ptr, y_ptr, w_ptr, b_ptr, n, eps, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=0.0)
    centred = tl.where(cols < n, x - tl.sum(x, axis=0) / n, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / n + eps)
    w = tl.load(w_ptr + cols, mask=cols < n)
    tl.store(y_ptr + row * n + cols, centred * scale * w + tl.load(b_ptr + cols, mask=cols < n), mask=cols < n)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)
        self.graph = None

    def _launch(self):
        n = self.x.shape[1]
        layer_norm[(self.x.shape[0],)](
            self.x, self.y, self.norm.weight, self.norm.bias, n, self.norm.eps, BLOCK=triton.next_power_of_2(n)
        )

    def forward(self, x):
        if self.graph is None:
            self.x, self.y = x.clone(), torch.empty_like(x)
            self._launch()
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self._launch()
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()
