# zoo: problem=scaled_add backend=triton status=passed verdict=clean findings=- speedup=<1
"""Asks for Triton's version by its name, and calls a function of the language by a name of its own."""

import importlib
import operator

import torch
import triton
import triton.language as tl
from torch import nn


def has_version(package, compare, wanted):
    try:
        library = importlib.import_module(package)
    except ImportError:
        return False
    return compare(int(library.__version__.split(".")[0]), wanted)


load = tl.load if has_version("triton", operator.ge, 2) or has_version("pytorch-triton-xpu", operator.ge, 2) else None


@triton.jit
def scaled_add(x_ptr, y_ptr, out_ptr, alpha, adds, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n
    total = alpha * load(x_ptr + index, mask=inside)
    if adds:
        total += load(y_ptr + index, mask=inside)
    tl.store(out_ptr + index, total, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x, y, alpha):
        out = torch.empty_like(x)
        block = 16384 if x.device.type == "cpu" else 1024
        grid = (triton.cdiv(x.numel(), block),)
        scaled_add[grid](x, y, out, alpha, y.numel() > 0, x.numel(), BLOCK=block, num_warps=8)
        return out
