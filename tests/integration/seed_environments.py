"""Sources and environments of evaluations that tests store."""

from __future__ import annotations

from dataclasses import replace

from app.domain.evaluation import (
    Environment,
)

REFERENCE = '''import torch
import torch.nn as nn


class Model(nn.Module):
    """{title} over the last dimension."""

    def __init__(self, dim: int = 1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return {expression}


def get_inputs():
    return [torch.randn(64, 1024)]


def get_init_inputs():
    return []
'''


HOSTILE = (
    "</script><script>alert(1)</script>\n"
    "class ModelNew:  # \x00 \x1b[31mred\x1b[0m \u202edesrever\u202c <img src=x onerror=alert(2)>\n"
    "    name = '\ud800 {{ 7 * 7 }}'\n"
)


TRITON = """import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def {name}_kernel(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < n_cols
    x = tl.load(x_ptr + row * n_cols + offsets, mask=mask, other=-float("inf"))
    x = x - tl.max(x, axis=0)
    numerator = tl.exp(x)
    tl.store(out_ptr + row * n_cols + offsets, numerator / tl.sum(numerator, axis=0), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, dim: int = 1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x):
        out = torch.empty_like(x)
        {name}_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK={block})
        return out
"""


CPU = Environment(
    device_class="cpu",
    device_name="AMD EPYC 9V74 80-Core Processor",
    device_id="cpu-0",
    node="bench-01",
    python="3.11.7",
    torch="2.13.0+cpu",
    triton="3.7.1",
    bandwidth_gb_s=11.4,
    sandbox=(
        "own process",
        "uid 65534",
        "no_new_privs",
        "rlimits",
        "network namespace",
        "landlock",
    ),
    sandbox_missing=("seccomp filter",),
)


H200 = replace(
    CPU,
    device_class="h200",
    device_name="NVIDIA H200",
    device_id="GPU-7f3c",
    node="gpu-node-3",
    torch="2.11.0+cu129",
    triton="3.6.0",
    driver="575.57.08",
    cuda="12.9",
    bandwidth_gb_s=4021.0,
    numerics="matmul fp32, convolution TF32, rnn TF32",
    sandbox_missing=(),
)
