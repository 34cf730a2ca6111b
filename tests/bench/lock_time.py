"""Share of time in which a device is timed on, checked on, drained or free, while
another bench runs.

    python -m tests.bench.lock_time lock.json tests.bench.gpu_eval group --slots 8

States of the device's lock: `timing` (held exclusively), `draining` (a timer waits for threads
that check), `checking` (shared, no timer waits), `free`.  The file has seconds and entries of each
state, seconds of holding by function for both kinds of holders, and by state the stacks of the
threads that hold the lock, sampled every 2 ms.  Start and warm-up are included, so the bench
should run for a minute or more.
"""

from __future__ import annotations

import json
import runpy
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from tests.bench.stack_sampler import collapsed
from workers.referee.host.device_lock import DeviceLock, Pausable

EVERY_S, STORE_S = 0.002, 15.0
SKIPPED = ("device_lock", "lock_time", "contextlib")


class LockTimes:
    """Seconds by state and by holder, of all locks of this process."""

    def __init__(self) -> None:
        """With nothing counted."""
        self.states: defaultdict[str, float] = defaultdict(float)
        self.entries: Counter[str] = Counter()
        self.held: defaultdict[str, defaultdict[str, float]] = defaultdict(
            lambda: defaultdict(float)
        )
        self.stacks: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._state, self._since = "free", time.perf_counter()
        self._begun: dict[int, float] = {}
        self.watched: WatchedLock | None = None

    def turn(self, state: str) -> None:
        """Count the time since the last change for the state that ends."""
        now = time.perf_counter()
        self.states[self._state] += now - self._since
        self.entries[state] += state != self._state
        self._state, self._since = state, now

    def begin(self) -> None:
        """Note that this thread holds the lock from now on."""
        self._begun[threading.get_ident()] = time.perf_counter()

    def end(self, kind: str) -> None:
        """Count the time for which this thread has held the lock, for the function
        that holds it.
        """
        seconds = time.perf_counter() - self._begun.pop(threading.get_ident())
        self.held[kind][_holder()] += seconds
        self.entries[kind] += 1

    def sample(self, ended: threading.Event, path: Path) -> None:
        """Sample the holders' stacks until `ended`; store the report every STORE_S seconds."""
        stored = time.perf_counter()
        while not ended.wait(EVERY_S):
            if time.perf_counter() - stored > STORE_S:
                stored = time.perf_counter()
                path.write_text(json.dumps(self.report(), indent=1))
            if self.watched is None or self._state == "free":
                continue
            state, frames = self._state, sys._current_frames()
            for thread in list(self._begun):
                if thread in frames:
                    self.stacks[state][collapsed(frames[thread])] += 1

    def report(self) -> dict[str, Any]:
        """Everything counted so far."""
        return {
            "seconds": {state: round(value, 3) for state, value in self.states.items()},
            "entries": dict(self.entries),
            "held_s": {
                kind: {
                    name: round(value, 3)
                    for name, value in sorted(counts.items(), key=lambda item: -item[1])[:20]
                }
                for kind, counts in list(self.held.items())
            },
            "stacks": {
                state: dict(counts.most_common(400)) for state, counts in list(self.stacks.items())
            },
        }


TIMES = LockTimes()


def _holder() -> str:
    frame: FrameType | None = sys._getframe(2)
    names: list[str] = []
    while frame is not None and len(names) < 3:
        stem = Path(frame.f_code.co_filename).stem
        if stem not in SKIPPED:
            names.append(f"{stem}.{frame.f_code.co_name}")
        frame = frame.f_back
    return ";".join(reversed(names))


class WatchedLock(DeviceLock):
    """A lock that tells `TIMES` of each change."""

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name in ("_timing", "_waiting_timers"):
            self._note()

    def _note(self) -> None:
        if getattr(self, "_timing", False):
            state = "timing"
        elif getattr(self, "_checking", None):
            state = "draining" if self._waiting_timers else "checking"
        else:
            state = "free"
        TIMES.watched = self
        TIMES.turn(state)

    def _begin_checking(self) -> None:
        super()._begin_checking()
        TIMES.begin()
        self._note()

    def _leave(self) -> None:
        super()._leave()
        TIMES.end("shared")
        self._note()

    @contextmanager
    def exclusive(self, *used: Pausable) -> Iterator[None]:
        """See DeviceLock."""
        with super().exclusive(*used):
            TIMES.begin()
            try:
                yield
            finally:
                TIMES.end("exclusive")


def main() -> None:
    """See above."""
    if len(sys.argv) < 3:
        sys.exit(f"usage: python -m tests.bench.lock_time FILE MODULE [ARGUMENT…]\n\n{__doc__}")
    path, module = Path(sys.argv[1]), sys.argv[2]
    sys.argv = sys.argv[2:]
    from workers.referee import resources

    setattr(resources, "DeviceLock", WatchedLock)  # noqa: B010 (it is not for others to import)
    ended = threading.Event()
    threading.Thread(target=TIMES.sample, args=(ended, path), daemon=True).start()
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        ended.set()
        path.write_text(json.dumps(TIMES.report(), indent=1))


if __name__ == "__main__":
    main()
