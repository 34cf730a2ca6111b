"""Time limits for requests to a process."""

from __future__ import annotations

import math
import time

from workers.referee.cancellation import Cancellation
from workers.referee.host.uncharged_time import UnchargedTime

REFERENCE_TIMEOUT_S = 60.0
"""Limit for any request to the reference, in seconds."""

FIRST_CALL = 3
"""Factor on the limit for a call that may compile.  A published matmul's autotuner with 47
configurations took more than 30 s (H200, eight evaluations on 16 cores).
"""


class Deadline:
    """The time left to a candidate, and to the work for its evaluation that is not its own.

    The candidate's time does not include waits for other evaluations, requests to the reference
    and comparisons of outputs (host/uncharged_time.py).
    """

    def __init__(
        self,
        seconds: float,
        call_timeout_s: float,
        cancellation: Cancellation | None = None,
        uncharged: UnchargedTime | None = None,
        work_s: float = math.inf,
    ) -> None:
        """`seconds`: total, from now on; `call_timeout_s`: for one call.  A cancellation ends the
        time at once.  `uncharged`: records this thread's time that is not the candidate's;
        `work_s`: limit for the work of the reference and the referee in it, from now on.
        """
        self._cancellation = cancellation or Cancellation()
        self._uncharged = uncharged or UnchargedTime()
        self._at = time.monotonic() + seconds - self._uncharged.total_s()
        self._work_until_s = self._uncharged.work_s() + work_s
        self.work_limit_s = work_s
        self._call_timeout_s = call_timeout_s

    @property
    def left_s(self) -> float:
        """Seconds left; never below zero."""
        return (
            0.0
            if self._cancellation.requested
            else max(0.0, self._at + self._uncharged.total_s() - time.monotonic())
        )

    @property
    def has_work_time(self) -> bool:
        """True until the work of the reference and the referee has taken as long as it may."""
        return self._uncharged.work_s() < self._work_until_s

    def allow(self, calls: int = 1) -> float:
        """Seconds for this number of calls."""
        return min(self.left_s, self._call_timeout_s * max(1, calls))

    def allow_first(self, *, compiles: bool) -> float:
        """Seconds for the first call.  `compiles`: kernels are compiled in it, as on a GPU."""
        return self.allow(FIRST_CALL if compiles else 1)
