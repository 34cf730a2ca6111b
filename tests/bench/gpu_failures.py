"""Figures of unusual evaluations on a GPU: faults, large tensors, CUDA extensions."""

import math
import subprocess
import sys
from typing import Any

from tests import zoo
from tests.bench.gpu_figures import _median, _rate, ratio
from tests.bench.gpu_fleet import Fleet, small, spec_of
from tests.gpu.samples import ILLEGAL

BAD = (
    "broken/segfault",
    "broken/exits_at_once",
    "broken/endless_loop",
    "broken/forward_raises",
    "broken/ten_gigabytes",
)


def faults(fleet: Fleet, clean_per_minute: float, count: int = 80) -> dict[str, Any]:
    """A fifth of the candidates crash, hang or poison the context: is anybody else hurt?"""
    cases = {case.name: case for case in zoo.cases()}
    bad = [spec_of(cases[name], timeout=3.0) for name in BAD]
    bad.append({**small(1)[0], "name": "illegal access", "candidate": ILLEGAL})
    specs = small(count)
    for index in range(0, count, 5):
        specs[index] = bad[index // 5 % len(bad)]
    rows, seconds = fleet.run(specs)
    innocent = [row for row in rows if row["index"] % 5]
    hurt = [
        (row["name"], row["status"], row["error"]) for row in innocent if row["status"] != "passed"
    ]
    guilty = sorted({(row["name"], row["status"]) for row in rows if not row["index"] % 5})
    per_minute = 60 * len(rows) / seconds if rows else math.nan
    return {
        "innocent": len(innocent),
        "hurt": hurt,
        "guilty": guilty,
        "per_minute": per_minute,
        "share_of_clean": per_minute / clean_per_minute if clean_per_minute else None,
    }


LARGE = """
import torch
from torch import nn
class {name}(nn.Module):
    def forward(self, x):
        return {body}
def get_inputs(): return [torch.{make}]
def get_init_inputs(): return []
"""


LARGE_SHAPES = ("rand(4096, 4096)", "rand(8192, 8192)", "rand(16384, 8192)", "rand(16384, 16384)")
"""64 MB to 1 GB."""


def large(fleet: Fleet, count: int) -> dict[str, Any]:
    """Problems of KernelBench's size: softmax in one operation against several."""
    specs = []
    for index in range(count):
        make = LARGE_SHAPES[index % len(LARGE_SHAPES)]
        slow = LARGE.format(
            name="Model", body="torch.exp(x) / torch.exp(x).sum(dim=1, keepdim=True)", make=make
        )
        fast = LARGE.format(name="ModelNew", body="torch.softmax(x, dim=1)", make=make)
        specs.append(
            {
                "name": make,
                "reference": slow,
                "candidate": f"{fast}\n# {index}\n",
                "backend": "torch",
            }
        )
    fleet.run(specs[:4])
    found = _rate(fleet, specs)
    speedups = sorted(
        (row["name"], round(row["timing"]["speedup"], 3)) for row in found["rows"] if row["timing"]
    )
    return {**found, "speedups": speedups}


def disturbed(fleet: Fleet, count: int) -> dict[str, Any]:
    """One pair while the host is idle, and while a dozen cores are kept busy; spares
    are raised in both.
    """
    pair = ratio(5, 4, 300.0)
    found: dict[str, float | None] = {}
    for name, cores in (("idle", 0), ("12 cores busy", 12)):
        burning = [
            subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(cores)
        ]
        try:
            rows, _ = fleet.run([pair] * count)
        finally:
            for process in burning:
                process.kill()
                process.wait()
        found[name] = _median(row["timing"]["speedup"] for row in rows if row["timing"])
    idle, busy = found.values()
    return {
        **found,
        "shift_percent": 100 * (busy / idle - 1) if idle and busy else None,
        "n": count,
    }


EXTENSION = """
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline
SOURCE = r'''
#include <torch/extension.h>
__global__ void scale(const float* x, float* y, long n) {
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}
torch::Tensor twice(torch::Tensor x) {
  auto y = torch::empty_like(x);
  scale<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  return y;
}
'''
module = load_inline("twice", cpp_sources="torch::Tensor twice(torch::Tensor x);",
                     cuda_sources=SOURCE,
                     functions=["twice"])
class ModelNew(nn.Module):
    def forward(self, x):
        return module.twice(x)
"""


def extension(fleet: Fleet) -> dict[str, Any]:
    """A CUDA source, compiled in its sandbox."""
    reference = LARGE.format(name="Model", body="x + x", make="rand(4096, 4096)")
    spec = {
        "name": "twice",
        "reference": reference,
        "candidate": EXTENSION,
        "backend": "cuda",
        "timeout": 120.0,
    }
    rows, seconds = fleet.run([spec])
    if not rows:
        return {"error": "it was stopped"}
    return {
        "seconds": seconds,
        **{key: rows[0][key] for key in ("status", "label", "found", "error", "stage_ms")},
    }
