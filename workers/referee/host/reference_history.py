"""Times of references in recent benchmarks: a candidate that slows the reference down makes itself look fast.

The referee keeps the times by problem for as long as it lives, so no candidate can change the times known from
others."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from dataclasses import replace

from app.domain.evaluation import Timing
from app.domain.ids import sha256
from app.domain.job import Job

BENCHMARKS = 3
"""Benchmarks from which on a usual time is known."""

KEPT_BENCHMARKS = 15
KEPT_PROBLEMS = 1000


class ReferenceHistory:
    """Times per call of references.  Thread-safe."""

    def __init__(self) -> None:
        """Without benchmarks at first."""
        self._lock = threading.Lock()
        self._times_us: OrderedDict[str, deque[float]] = OrderedDict()

    def compared(self, job: Job, timing: Timing) -> Timing:
        """The timing with the reference's usual time from earlier benchmarks; this one is then added to them."""
        key = _key(job)
        with self._lock:
            before = self._times_us.setdefault(key, deque(maxlen=KEPT_BENCHMARKS))
            self._times_us.move_to_end(key)
            # The shortest: a single undisturbed benchmark is enough to know the reference's time.
            usual_us = min(before) if len(before) >= BENCHMARKS else None
            before.append(timing.reference_us)
            if len(self._times_us) > KEPT_PROBLEMS:
                self._times_us.popitem(last=False)
        return replace(timing, reference_usual_us=usual_us)

    def last_us(self, job: Job) -> float | None:
        """Time of a reference's call in the last benchmark."""
        with self._lock:
            known = self._times_us.get(_key(job))
            return known[-1] if known else None


def _key(job: Job) -> str:
    return sha256(job.reference + b"\0" + job.entry_point.encode())
