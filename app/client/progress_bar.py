"""ENQUEUE: a bar on standard error while evaluations run, with the standard library
alone: trainers have no more.
"""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from types import TracebackType

WIDTH = 30
"""Characters of the bar."""
PERIOD_S = 10.0
"""Pause between two lines where standard error is no terminal, in seconds."""


class Bar:
    """`evaluating ━━━━──── 12/40 0:00:07`, drawn in place on a terminal, else a line
    now and then.
    """

    def __init__(self, total: int, *, shown: bool) -> None:
        self._total, self._shown, self._done = total, shown, 0
        self._began = time.monotonic()
        self._drawn_at: float | None = None

    def __enter__(self) -> Bar:
        self._draw()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown and sys.stderr.isatty():
            sys.stderr.write("\n")

    def advance(self, count: int) -> None:
        """So many more are over."""
        self._done += count
        self._draw()

    def _draw(self) -> None:
        if not self._shown:
            return
        in_place, now = sys.stderr.isatty(), time.monotonic()
        due = (
            self._drawn_at is None or now - self._drawn_at >= PERIOD_S or self._done >= self._total
        )
        if not (in_place or due):
            return
        self._drawn_at = now
        full = WIDTH * self._done // max(self._total, 1)
        bar = "━" * full + "─" * (WIDTH - full)
        took = timedelta(seconds=int(now - self._began))
        text = f"evaluating {bar} {self._done}/{self._total} {took}"
        sys.stderr.write(f"\r{text}" if in_place else f"{text}\n")
        sys.stderr.flush()
