# zoo: problem=rms_norm backend=triton status=passed verdict=clean findings=- speedup=<1
"""Takes its inverse root from a copy of libdevice's module, loaded by its specification as published kernels do that
run with several versions of Triton."""

import importlib.util

import torch
import triton
import triton.language as tl
from torch import nn


def of_libdevice(name):
    for place in ("triton.language.extra.libdevice", "triton.language.math"):
        spec = importlib.util.find_spec(place)
        if spec is not None:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return getattr(module, name)
    raise ImportError(name)


inverse_root = of_libdevice("rsqrt")


@triton.jit
def rms_norm(x_ptr, weight_ptr, out_ptr, rows, features, eps, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    inside = (row < rows) & (column < features)
    x = tl.load(x_ptr + row * features + column, mask=inside, other=0.0)
    scale = inverse_root(tl.sum(x * x, axis=1)[:, None] / features + eps)
    weight = tl.load(weight_ptr + column, mask=column < features, other=0.0)
    tl.store(out_ptr + row * features + column, x * scale * weight, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, *, features, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x):
        rows, features = x.shape
        out = torch.empty_like(x)
        per_program = 16 if x.device.type == "cpu" else 1  # the interpreter pays per program
        width = triton.next_power_of_2(features)
        rms_norm[(triton.cdiv(rows, per_program),)](
            x, self.weight, out, rows, features, self.eps, ROWS=per_program, WIDTH=width, num_warps=8
        )
        return out
