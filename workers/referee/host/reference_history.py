"""Times of references in recent benchmarks: a candidate that slows the reference
down makes itself look fast.

They also show the effect of placement in device memory.  The same kernel of a library takes another
time in another process of the same code, and for as long as that process keeps its memory: 4.9 or
6.4 ms (KernelBench 2/77), 3.26 or 3.48 ms (2/61; H200).  No repetition within one benchmark
averages that out, so the interval of a speedup is widened.

The referee keeps the times by problem for as long as it lives, so no candidate can
change the times known from others.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from dataclasses import replace

from app.domain.evaluation import Timing
from app.domain.ids import sha256
from app.domain.job import Job

BENCHMARKS = 3
"""Benchmarks from which on a usual time is known."""

PLACED_US = 1000.0
"""Time per call in microseconds from which on a reference's times differ by
placement rather than by their host.
"""

KEPT_BENCHMARKS = 15
"""Latest benchmarks of a reference that are kept: a device that has become slower is its usual
one then.
"""
KEPT_PROBLEMS = 1000
"""References that are kept, the latest used ones."""


class ReferenceHistory:
    """Times per call of references.  Thread-safe."""

    def __init__(self, *, widens: bool = False) -> None:
        """Without benchmarks at first.  `widens`: intervals are widened by the
        effect of placement, as on a GPU.
        """
        self._widens = widens
        self._lock = threading.Lock()
        self._times_us: OrderedDict[str, deque[float]] = OrderedDict()

    def compared(self, job: Job, timing: Timing) -> Timing:
        """The timing with the reference's usual time from earlier benchmarks, and with the interval
        that follows from their spread (`_widened`); this one is then added to them.
        """
        key = _key(job)
        with self._lock:
            before = self._times_us.setdefault(key, deque(maxlen=KEPT_BENCHMARKS))
            self._times_us.move_to_end(key)
            # The shortest: a single undisturbed benchmark is enough to know the reference's time.
            usual_us = min(before) if len(before) >= BENCHMARKS else None
            found = _widened(timing, list(before)) if self._widens else timing
            before.append(timing.reference_us)
            if len(self._times_us) > KEPT_PROBLEMS:
                self._times_us.popitem(last=False)
        return replace(found, reference_usual_us=usual_us)

    def last_us(self, job: Job) -> float | None:
        """Time of a reference's call in the last benchmark."""
        with self._lock:
            known = self._times_us.get(_key(job))
            return known[-1] if known else None


def _widened(timing: Timing, before_us: list[float]) -> Timing:
    """The timing with an interval that holds the speedup of equally well placed sides.  The
    reference may be placed worse than in its fastest benchmark by the additional time that it takes
    now, and the candidate as badly as the reference has been in a quarter of its benchmarks.
    """
    if len(before_us) < BENCHMARKS or min(*before_us, timing.reference_us) < PLACED_US:
        return timing
    known_us = sorted([*before_us, timing.reference_us])
    worse = timing.reference_us / known_us[0]
    spread = known_us[-1 - len(known_us) // 4] / known_us[0]
    return replace(timing, ci_low=timing.ci_low / worse, ci_high=timing.ci_high * spread)


def _key(job: Job) -> str:
    return sha256(job.reference + b"\0" + job.entry_point.encode())
