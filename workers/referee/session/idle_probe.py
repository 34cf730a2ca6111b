"""Probe of a GPU: how long it takes to answer a tiny request, and reads that fill
its second-level cache.
"""

from __future__ import annotations

import functools
import time

import torch

from workers.referee.processes.process_session import synchronize

FLUSH_CACHES = 4
"""Times that a GPU's second-level cache is read before every block.  Read, not written:
a cache full of modified bytes costs the first call of a block 150 µs (H200), which
belongs to no side's time per call.
"""

IDLE_US, RESTING_S = 100.0, 0.005
"""Longest time of a tiny request, in microseconds, and longest wait for it, in seconds, before a
block, when no process has reason to work: an idle device answers in a fifth of that.
"""


class IdleProbe:
    """Requests of the referee's own to a device; none on the CPU."""

    def __init__(self, device: torch.device) -> None:
        """Allocates the memory that is read once per device."""
        self._device = device
        self._flush = _flusher(device)
        self._tiny = torch.zeros(1, device=device)

    @property
    def asks(self) -> bool:
        """True if the device answers requests: it is a GPU."""
        return self._flush is not None

    def answer_ns(self, at_once_us: float, within_s: float) -> int:
        """Nanoseconds until a tiny request is answered within `at_once_us`, or until `within_s` has
        passed.  Processes take turns at the device, and a request may have to wait for another
        process's turn, so it is repeated.
        """
        began = asked = time.perf_counter_ns()
        while True:
            self._tiny.zero_()
            synchronize(self._device)
            now = time.perf_counter_ns()
            if now - asked < at_once_us * 1000 or now - began > within_s * 1e9:
                return now - began
            asked = now

    def is_idle(self, at_once_us: float, within_s: float) -> bool:
        """Wait until a tiny request is answered within `at_once_us`; False if that takes longer
        than `within_s`.  True on the CPU.
        """
        return not self.asks or self.answer_ns(at_once_us, within_s) < within_s * 1e9

    def flush_caches(self) -> None:
        """Fill the second-level cache with other data: otherwise it would hold the
        inputs that were just written.
        """
        if self._flush is not None:
            torch.sum(self._flush)


@functools.cache
def _flusher(device: torch.device) -> torch.Tensor | None:
    """Memory to be read before every block in order to fill the cache; shared by all
    evaluations.  None on the CPU.
    """
    if device.type != "cuda":
        return None
    cache = torch.cuda.get_device_properties(device).L2_cache_size
    return torch.zeros(FLUSH_CACHES * cache // 4, dtype=torch.float32, device=device)
