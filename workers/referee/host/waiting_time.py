"""Time that an evaluation has waited for others: for the device's lock and for memory.

That time is no side's fault, so it extends every deadline that runs meanwhile, and
the worker is told of it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Waits:
    """Waiting times of one referee's threads, each of which handles one evaluation at a time."""

    def __init__(self) -> None:
        """Without waits at first."""
        self._seconds: dict[int, float] = {}
        self._since: dict[int, float] = {}

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

    def add(self, seconds: float) -> None:
        """Add waiting time that this thread could not measure itself: a process that
        it asked was paused.
        """
        thread = threading.get_ident()
        self._seconds[thread] = self._seconds.get(thread, 0.0) + seconds

    def seconds(self, thread: int | None = None) -> float:
        """Total waiting time of a thread (by default this one), including the present wait."""
        thread = threading.get_ident() if thread is None else thread
        since = self._since.get(thread)
        return self._seconds.get(thread, 0.0) + (0.0 if since is None else time.monotonic() - since)
