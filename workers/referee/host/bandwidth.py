"""Memory bandwidth of the device, and the least time of a call that follows from the
bytes it must move.
"""

from __future__ import annotations

import time

import numpy
import torch

GENEROUS = 2.0
"""Factor on the measured peak before a candidate is accused of exceeding it."""

_BLOCK_BYTES = 16 << 10  # in the first-level cache: nothing on this core moves bytes faster


def cpu_bandwidth() -> float:
    """Peak bytes per second that one core reads and writes, measured on a block in
    its first-level cache.
    """
    source, target = numpy.ones(_BLOCK_BYTES, numpy.uint8), numpy.empty(_BLOCK_BYTES, numpy.uint8)
    best = float("inf")
    for _ in range(20):
        began = time.perf_counter()
        for _ in range(200):
            numpy.copyto(target, source)
        best = min(best, (time.perf_counter() - began) / 200)
    return 2 * _BLOCK_BYTES / best


def gpu_bandwidth(device: torch.device) -> float:
    """Bytes per second that a large copy on the device reads and writes; the best of ten."""
    source = torch.empty(1 << 30, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    best = float("inf")
    for _ in range(10):
        began, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        began.record()
        target.copy_(source)
        ended.record()
        ended.synchronize()
        best = min(best, began.elapsed_time(ended) / 1000)
    del source, target
    torch.cuda.empty_cache()
    return 2 * (1 << 30) / best


def floor_us(bytes_moved: int, bytes_per_s: float) -> float:
    """Microseconds that an honest call cannot undercut."""
    return bytes_moved / (bytes_per_s * GENEROUS) * 1e6
