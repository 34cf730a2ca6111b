"""Pairs that launch in different ways: how often the stated interval holds the truth,
and how far the median is off it.

    python -m tests.bench.launch_paths --device h200 --slots 8 --count 12 --json paths.json
    python -m tests.bench.launch_paths --device h200 --slots 1 --only softmax_64mb,scale_1gb

The truths of a pair are taken in one process without a referee, three ways: by `do_bench` with a
cold cache; by calls on rotating inputs back to back; and by the same calls replayed from a CUDA
graph after the second-level cache was read full, which leaves the host's launching out.  The first
two bound the speedup that a caller sees.  A pair is host-bound where they differ from the third by
more than `HOST_BOUND`; an evaluation of it must say `launch_bound`, or hold both. With
`--device-time` the device-time speedup of each evaluation is compared with the third.  Prints JSON.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

import torch

BUDGET_S = 0.08
HOST_BOUND = 0.1
ROTATED_BYTES = 1 << 30
"""Bytes of the input sets between which a truth rotates, so that none is in the
second-level cache.
"""

TRUTH_S = 120.0
"""Limit for the truths of a pair, in seconds."""

GRAPHED = 64
"""Calls in a graph, at the most."""

_SHAPE = "def get_inputs(): return [torch.randn({shape})]\ndef get_init_inputs(): return []\n"
_TORCH = (
    "import torch\nfrom torch import nn\nclass Model(nn.Module):\n    def forward(self, x):\n      "
    "  {body}\n"
)
_TRITON = (
    "import torch, triton\nimport triton.language as tl\nfrom torch import nn\n{kernel}\nclass"
    " ModelNew(nn.Module):\n"
)

_SOFTMAX = """
@triton.jit
def softmax_rows(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    value = tl.exp(value - tl.max(value, 0))
    tl.store(y + row * columns + at, value / tl.sum(value, 0), mask=at < columns)
"""
_SOFTMAX_CALL = """    def forward(self, x):
        y = torch.empty_like(x)
        block = triton.next_power_of_2(x.shape[1])
        softmax_rows[(x.shape[0],)](x, y, x.shape[1], BLOCK=block, num_warps=8)
        return y
"""
_SCALE = """
@triton.jit
def scale_and_clamp(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(y + at, tl.minimum(tl.maximum(value * 1.5 + 0.25, -1.0), 1.0), mask=at < n)
"""
_SCALE_CALL = """    def forward(self, x):
        y = torch.empty_like(x)
        scale_and_clamp[(triton.cdiv(x.numel(), 4096),)](x, y, x.numel(), BLOCK=4096, num_warps=8)
        return y
"""
_SCALE_TORCH = "return torch.clamp(x * 1.5 + 0.25, -1.0, 1.0)"
_GRAPH = """import torch
from torch import nn
class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.graph = None
    def forward(self, x):
        if self.graph is None:
            self.given = x.clone()
            chain(self.given)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.answer = chain(self.given)
        self.given.copy_(x)
        self.graph.replay()
        return self.answer.clone()
def chain(x):
    for _ in range(8):
        x = torch.tanh(x) + 0.125
    return x
"""
_CHAIN = "for _ in range(8):\n            x = torch.tanh(x) + 0.125\n        return x"
_SPIN = "torch.cuda._sleep(59_400)\n        return x.neg()"
_NEGATE = """
@triton.jit
def negate(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, -tl.load(x + at, mask=at < n), mask=at < n)
"""
_NEGATE_CALL = """    def forward(self, x):
        torch.cuda._sleep(59_400)
        y = torch.empty_like(x)
        negate[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y
"""


def _pair(body: str, candidate: str, shape: str, backend: str = "triton") -> dict[str, str]:
    return {
        "reference": _TORCH.format(body=body) + _SHAPE.format(shape=shape),
        "candidate": candidate,
        "backend": backend,
    }


def _triton(kernel: str, call: str) -> str:
    return _TRITON.format(kernel=kernel) + call


PAIRS = {
    "softmax_384kb": _pair(
        "return torch.softmax(x, 1)", _triton(_SOFTMAX, _SOFTMAX_CALL), "96, 1000"
    ),
    "softmax_16mb": _pair(
        "return torch.softmax(x, 1)", _triton(_SOFTMAX, _SOFTMAX_CALL), "2048, 2048"
    ),
    "softmax_64mb": _pair(
        "return torch.softmax(x, 1)", _triton(_SOFTMAX, _SOFTMAX_CALL), "4096, 4096"
    ),
    "scale_4mb": _pair(_SCALE_TORCH, _triton(_SCALE, _SCALE_CALL), "1024, 1024"),
    "scale_256mb": _pair(_SCALE_TORCH, _triton(_SCALE, _SCALE_CALL), "8192, 8192"),
    "scale_1gb": _pair(_SCALE_TORCH, _triton(_SCALE, _SCALE_CALL), "16384, 16384"),
    "graph_of_16": _pair(_CHAIN, _GRAPH, "256, 1024", "torch"),
    "spin_30us": _pair(_SPIN, _triton(_NEGATE, _NEGATE_CALL), "256, 1024"),
}
"""References in torch; candidates that launch otherwise."""


def truth(pair: dict[str, str]) -> dict[str, float]:
    """Speedups by each of the three ways, in this process."""
    from triton.testing import do_bench

    sides = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, source in (("Model", pair["reference"]), ("ModelNew", pair["candidate"])):
            path = Path(folder, f"{name}.py")
            path.write_text(source)
            module = types.ModuleType(name)
            module.__file__ = str(path)
            sys.modules[name] = module
            exec(compile(source, str(path), "exec"), module.__dict__)
            sides[name] = module.__dict__[name]().cuda()
        with torch.device("cuda"):
            one = sys.modules["Model"].__dict__["get_inputs"]()[0]
            count = max(2, min(128, ROTATED_BYTES // one.nbytes))
            inputs = [torch.randn_like(one) for _ in range(count)]
        found: dict[str, list[float]] = {"cold": [], "rotating": [], "graph": []}
        for model in sides.values():
            with torch.no_grad():
                model(inputs[0])
                found["cold"].append(
                    do_bench(lambda model=model: model(inputs[0]), rep=200, return_mode="median")
                )
                found["rotating"].append(min(_rotating(model, inputs) for _ in range(7)))
                found["graph"].append(_replayed(model, inputs))
    return {name: times[0] / times[1] for name, times in found.items()} | {
        "reference_us": 1000 * found["rotating"][0],
        "candidate_us": 1000 * found["rotating"][1],
    }


def _rotating(model: Any, inputs: list[torch.Tensor]) -> float:
    """Milliseconds a call, one call after the other."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    for each in inputs:
        model(each)
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / len(inputs)


def _replayed(model: Any, inputs: list[torch.Tensor]) -> float:
    """The same from a graph; NaN where a call cannot be captured."""
    graph, some = torch.cuda.CUDAGraph(), inputs[:GRAPHED]
    cache = torch.zeros(
        torch.cuda.get_device_properties(0).L2_cache_size, dtype=torch.float32, device="cuda"
    )
    try:
        with torch.cuda.graph(graph):
            kept = [model(each) for each in some]
    except RuntimeError:
        return float("nan")
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for _ in range(8):
        torch.cuda.synchronize()
        torch.sum(cache)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / len(some))
    del kept
    return statistics.median(times)


def truths(names: list[str]) -> dict[str, dict[str, Any]]:
    """Truths of each pair, taken in a process of its own, so that memory and context
    are free afterwards.
    """
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        command = [sys.executable, "-m", "tests.bench.launch_paths", "--truth", name]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=TRUTH_S, check=False
            )
        except subprocess.TimeoutExpired:
            found[name] = {"error": f"it took more than {TRUTH_S:g} s"}
            continue
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        found[name] = json.loads(lines[-1]) if lines else {"error": done.stderr[-400:]}
    return found


def read(name: str, true: dict[str, float], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Results of a pair against its truths."""
    timings = [row["timing"] for row in rows if row["timing"]]
    refused = [
        (row["status"], row["label"], row["accused_by"], row["error"])
        for row in rows
        if (row["status"], row["label"]) != ("passed", "clean")
    ]
    found = {
        "pair": name,
        "n": len(rows),
        "timed": len(timings),
        "truth": true,
        "not_clean": refused,
    }
    found |= _read_device_times(true, [each["device"] for each in timings if each["device"]])
    if not timings or "error" in true:
        return found
    low, high = sorted((true["cold"], true["rotating"]))
    host_bound = not abs(true["rotating"] / true["graph"] - 1) <= HOST_BOUND
    inside = [each["ci_low"] <= high and low <= each["ci_high"] for each in timings]
    speedups = [each["speedup"] for each in timings]
    median = statistics.median(speedups)
    return found | {
        "host_bound": host_bound,
        "launch_bound_said": sum(bool(each["launch_bound"]) for each in timings),
        "inside": sum(inside),
        "median": median,
        "min": min(speedups),
        "max": max(speedups),
        "bias_percent": (
            100 * (max(0.0, median / high - 1) if median > high else min(0.0, median / low - 1))
        ),
        "half_width_percent": (
            50
            * statistics.median(
                (each["ci_high"] - each["ci_low"]) / each["speedup"] for each in timings
            )
        ),
        "calls_per_block": statistics.median(
            block["calls"] for each in timings for block in each["blocks"] if block["calls"]
        ),
        "seconds": statistics.median(row["seconds"] for row in rows),
    }


def _read_device_times(true: dict[str, float], found: list[dict[str, Any]]) -> dict[str, Any]:
    """Device-time speedups of the evaluations that were asked for them, against the
    truth from graphs.
    """
    if not found or "error" in true:
        return {}
    told = [each for each in found if each["error"] is None]
    errors = sorted({each["error"] for each in found} - {None})
    if not told:
        return {"device": {"n": len(found), "told": 0, "errors": errors}}
    median = statistics.median(each["speedup"] for each in told)
    return {
        "device": {
            "n": len(found),
            "told": len(told),
            "errors": errors,
            "median": median,
            "min": min(each["speedup"] for each in told),
            "max": max(each["speedup"] for each in told),
            "inside": sum(each["ci_low"] <= true["graph"] <= each["ci_high"] for each in told),
            "bias_percent": 100 * (median / true["graph"] - 1),
            "half_width_percent": (
                50
                * statistics.median(
                    (each["ci_high"] - each["ci_low"]) / each["speedup"] for each in told
                )
            ),
            "candidate_us": statistics.median(each["candidate_us"] for each in told),
        }
    }


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="h100", help="device class")
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--count", type=int, default=12, help="evaluations of each pair")
    parser.add_argument("--budget", type=float, default=BUDGET_S, help="for timing, in seconds")
    parser.add_argument(
        "--only", type=lambda text: text.split(","), default=list(PAIRS), help="names of pairs"
    )
    parser.add_argument(
        "--device-time", action="store_true", help="also take the device-time speedup"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=math.inf,
        help="time for the evaluations of a pair, after which those in flight are cancelled",
    )
    parser.add_argument("--json", type=Path, help="results, and every timing")
    parser.add_argument("--truth", help="take the truths of one pair, and nothing else")
    arguments = parser.parse_args()
    if arguments.truth:
        print(json.dumps(truth(PAIRS[arguments.truth])))
        return
    from tests.bench.gpu_fleet import Fleet

    true = truths(arguments.only)
    fleet = Fleet(arguments.device, arguments.slots)
    fleet.end_on_signals()
    report = []
    for name in arguments.only:
        if fleet.interrupted:
            break
        specs = [
            {
                **PAIRS[name],
                "name": f"{name} {index}",
                "budget": arguments.budget,
                "device_time": arguments.device_time,
                "candidate": f"{PAIRS[name]['candidate']}\n# {index}\n",
            }
            for index in range(arguments.count)
        ]
        with fleet.within(arguments.seconds):
            fleet.run(specs[:1])
            rows, seconds = fleet.run(specs)
        per_minute = 60 * len(rows) / seconds if rows else None
        report.append(
            read(name, true[name], rows) | {"asked": len(specs), "per_minute": per_minute}
        )
        print(json.dumps(report[-1]), flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(report, indent=1))
    fleet.close()
    sys.exit(int(fleet.interrupted))


if __name__ == "__main__":
    main()
