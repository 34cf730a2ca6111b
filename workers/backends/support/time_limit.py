"""Limits of processor time for a problem's code, which may never end on changed inputs.

A timer of the process's own processor time ends them: a dispatch mode that looks at a clock costs
as much with every operator as three of them take.  Its signal may come at any place.  Where that is
the problem's own code, TimeoutError is raised there; elsewhere, where an error could leave a mode
or a lock behind, `is_over` tells, which dispatch modes look at (dispatch_mode.Watching), and the
signal is repeated.  Processor time, because timers may pause the process.
"""

from __future__ import annotations

import math
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import ClassVar

AGAIN_S = 0.002
"""Processor seconds until a signal is repeated: its error may have been caught."""

_NOT_A_PROBLEMS = frozenset({"torch", "workers", *sys.stdlib_module_names})
"""Packages in which no signal raises an error."""


class TimeLimit:
    """Context that raises TimeoutError in a problem's code after a time limit; in the main thread
    alone.  This does not end a library's function that neither calls the problem's code nor, under
    a mode, operators.
    """

    bounds: ClassVar[list[float]] = [math.inf]
    """Moments of processor time that no limit exceeds, innermost last."""
    _active: ClassVar[list[TimeLimit]] = []
    """Limits of the contexts that are open, innermost last."""
    _over: ClassVar[TimeLimit | None] = None
    """A limit that has passed, once a signal has come."""

    def __init__(self, limit_s: float) -> None:
        """`limit_s`: seconds of processor time from now on."""
        self._limit_s = limit_s
        self._until = min(time.process_time() + limit_s, *self.bounds)

    @classmethod
    @contextmanager
    def at_most(cls, limit_s: float) -> Iterator[None]:
        """Context in which limits end within `limit_s`; none of itself.  Raises TimeoutError if
        none is left.
        """
        if limit_s <= 0:
            raise TimeoutError("expected time to be left")
        cls.bounds.append(time.process_time() + limit_s)
        try:
            yield
        finally:
            cls.bounds.pop()

    @classmethod
    def require_time(cls) -> None:
        """Raise TimeoutError if a limit has passed."""
        if cls._over is not None:
            raise TimeoutError(f"expected the model to end within {cls._over._limit_s:g} s")

    def __enter__(self) -> None:
        if not self._active:
            signal.signal(signal.SIGPROF, _on_signal)
        self._active.append(self)
        _set_timer()

    def __exit__(self, *error: object) -> None:
        self._active.remove(self)
        TimeLimit._over = None
        _set_timer()


def _set_timer() -> None:
    """Set the timer for the first limit that passes; stop it if there is none."""
    until = min((each._until for each in TimeLimit._active), default=None)
    left_s = 0.0 if until is None else max(AGAIN_S, until - time.process_time())
    signal.setitimer(signal.ITIMER_PROF, left_s)


def _on_signal(_: int, frame: FrameType | None) -> None:
    now = time.process_time()
    TimeLimit._over = next((each for each in TimeLimit._active if each._until <= now), None)
    _set_timer()
    package = str(frame.f_globals.get("__name__")).partition(".")[0] if frame is not None else ""
    if package and package not in _NOT_A_PROBLEMS:
        TimeLimit.require_time()
