"""Time limits for requests to a process."""

from __future__ import annotations

import time

from workers.referee.cancellation import Cancellation
from workers.referee.host.waiting_time import Waits

REFERENCE_TIMEOUT_S = 60.0
"""Limit for any request to the reference, in seconds."""

FIRST_CALL = 3
"""Factor on the limit for a call that may compile.  A published matmul's autotuner with 47
configurations took more than 30 s (H200, eight evaluations on 16 cores).
"""


class Deadline:
    """The time left to a candidate.  Time that the evaluation spends waiting for
    others does not count.
    """

    def __init__(
        self,
        seconds: float,
        call_timeout_s: float,
        cancellation: Cancellation | None = None,
        waits: Waits | None = None,
    ) -> None:
        """`seconds`: total, from now on; `call_timeout_s`: for one call.  A cancellation ends the
        time at once. `waits`: records how long this thread has waited for others.
        """
        self._cancellation = cancellation or Cancellation()
        self._waits = waits or Waits()
        self._at = time.monotonic() + seconds - self._waits.seconds()
        self._call_timeout_s = call_timeout_s

    @property
    def left_s(self) -> float:
        """Seconds left; never below zero."""
        return (
            0.0
            if self._cancellation.requested
            else max(0.0, self._at + self._waits.seconds() - time.monotonic())
        )

    def allow(self, calls: int = 1) -> float:
        """Seconds for this number of calls."""
        return min(self.left_s, self._call_timeout_s * max(1, calls))

    def allow_first(self, *, compiles: bool) -> float:
        """Seconds for the first call.  `compiles`: kernels are compiled in it, as on a GPU."""
        return self.allow(FIRST_CALL if compiles else 1)
