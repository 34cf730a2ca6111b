"""Time of an evaluation that is not charged to its candidate: waits for other evaluations, for the
device's lock and for memory, and work of the reference and of the referee.

It extends every deadline that runs meanwhile, and is reported to the worker.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class UnchargedTime:
    """Uncharged time of a referee's threads, each of which handles one evaluation at a time."""

    def __init__(self) -> None:
        """Starts at zero."""
        self._seconds: dict[int, float] = {}
        self._since: dict[int, float] = {}
        self._worked: dict[int, float] = {}
        self._working: dict[int, tuple[float, float]] = {}
        """Begin of the present work, and the waiting time by then."""

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the enclosed time as waiting of this thread.  Nested waits count once."""
        thread = threading.get_ident()
        if thread in self._since:
            yield
            return
        began = time.monotonic()
        self._since[thread] = began
        try:
            yield
        finally:
            del self._since[thread]
            self._seconds[thread] = self._seconds.get(thread, 0.0) + time.monotonic() - began

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count the enclosed time, without waits in it, as work for this thread's evaluation that
        is not the candidate's: a request to the reference, or a comparison of outputs.  Nested
        work counts once.
        """
        thread = threading.get_ident()
        if thread in self._working:
            yield
            return
        self._working[thread] = (time.monotonic(), self.waited_s())
        try:
            yield
        finally:
            self._worked[thread] = self.work_s()
            del self._working[thread]

    def add(self, seconds: float) -> None:
        """Add waiting time that this thread could not measure itself: a process that
        it asked was paused.
        """
        thread = threading.get_ident()
        self._seconds[thread] = self._seconds.get(thread, 0.0) + seconds

    def waited_s(self, thread: int | None = None) -> float:
        """Total waiting time of a thread (by default this one), including the present wait."""
        thread = threading.get_ident() if thread is None else thread
        since = self._since.get(thread)
        return self._seconds.get(thread, 0.0) + (0.0 if since is None else time.monotonic() - since)

    def work_s(self, thread: int | None = None) -> float:
        """Total work for a thread's evaluations (by default this one's), including the present."""
        thread = threading.get_ident() if thread is None else thread
        done_s, present = self._worked.get(thread, 0.0), self._working.get(thread)
        if present is None:
            return done_s
        began, waited_s = present
        return done_s + max(0.0, time.monotonic() - began - (self.waited_s(thread) - waited_s))

    def total_s(self, thread: int | None = None) -> float:
        """Total time of a thread (by default this one) that is not the candidate's: waits, work."""
        return self.waited_s(thread) + self.work_s(thread)
