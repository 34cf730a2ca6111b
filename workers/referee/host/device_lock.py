"""The lock of a device: shared by many that load and check, or held by one that times.

Between processes a lock is a file that every user of the device locks (flock); the kernel lets go when the holder
dies.  A second file is the turnstile in which a waiting timer stands, so that checkers arriving later cannot starve it.

Between the threads of one referee timers go first, one after the other: each change from checking to timing waits for
the slowest checker, and so is made as seldom as can be.  A thread that checks for long steps aside in between: on an
H200 with eight evaluations in flight, where some checks lasted 100 ms, timers spent a third of all time waiting for the
last of them.  No checker starves, because timers come from checkers.

What takes long and waits for nobody runs apart: a candidate's first call, which may compile for a minute, and a
problem's own code.  Timers do not wait for it; they pause its process instead, so that it neither computes on the
device meanwhile nor loses time that it is allowed.  A first call is not paused as long as it seems to compile."""

from __future__ import annotations

import fcntl
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from workers.referee.host.waiting_time import Waits

COMPILING_S = 1.0
"""Time that a first call runs apart before timers pause it.  A Triton kernel compiles in a third of a second, on the
host, while others are timed for a third of all time (small problems, H200)."""


class Pausable(Protocol):
    """Process that a timer stops for a while."""

    @property
    def paused_s(self) -> float:
        """Seconds for which it has been stopped so far."""
        ...

    def pause(self) -> None:
        """Stop it."""
        ...

    def resume(self) -> None:
        """Let it run on."""
        ...


GoApart = Callable[[Pausable | None], None]
"""Called with the process that is going to take long, or None where a request to it by another thread does."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Apart:
    """Something that runs apart."""

    process: Pausable | None
    paused_from: float
    """Time (time.monotonic) from which on timers pause it."""
    paused_s: float
    """Time for which its process had been paused before."""


class DeviceLock:
    """Lock of one device, for any number of threads."""

    def __init__(self, folder: Path, device_id: str) -> None:
        """`folder`: where all referees of this host look."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._device = folder / f"{device_id}.lease"
        self._turnstile = folder / f"{device_id}.turnstile"
        self._changed = threading.Condition()
        self._checking: set[int] = set()
        """Threads."""
        self._waiting_timers = 0
        self._timing = False
        self._apart: list[Apart] = []
        """Processes that run apart, one for each thread that waits for it."""
        self._paused: list[Pausable] = []
        """Processes paused by the timer."""
        self._locks = ExitStack()
        """The files' locks, while some thread checks or times."""
        self.waits = Waits()
        """Time that each thread has waited for the device, and for anything else counted there."""

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold the lock for checking: together with others that check, never during timing."""
        with self.waits.waiting(), self._changed:
            self._enter()
        try:
            yield
        finally:
            with self._changed:
                self._leave()

    @contextmanager
    def shared_at_first(self) -> Iterator[GoApart]:
        """Hold the lock while a problem's own code runs, which may take long: as `shared`, until the function that
        this gives is called.  From then on as `apart`: timers of other evaluations do not wait for it."""
        gone: list[Apart] = []

        def go_apart(process: Pausable | None) -> None:
            with self._changed:
                if not gone:
                    self._leave()
                    gone.append(self._go(process, 0.0))

        with self._changed:
            self._enter()
        try:
            yield go_apart
        finally:
            with self._changed:
                if gone:
                    self._come_back(gone[0])
                else:
                    self._leave()

    def _go(self, process: Pausable | None, after_s: float) -> Apart:
        paused_s = 0.0 if process is None else process.paused_s
        gone = Apart(process=process, paused_from=time.monotonic() + after_s, paused_s=paused_s)
        self._apart.append(gone)
        return gone

    def _come_back(self, gone: Apart) -> None:
        """Run apart no more.  A paused process runs again before its thread goes on; the pauses were waits."""
        process = gone.process
        with self.waits.waiting():
            self._changed.wait_for(lambda: all(each is not process for each in self._paused))
        if process is not None:
            self.waits.add(process.paused_s - gone.paused_s)
        self._apart.remove(gone)
        self._changed.notify_all()

    @property
    def obstructed(self) -> bool:
        """True while this thread checks and a timer of another thread waits."""
        return bool(self._waiting_timers) and threading.get_ident() in self._checking

    def step_aside(self) -> None:
        """Let waiting timers go first, where this thread checks.  The caller holds no lock that one of them may want,
        and nothing of its evaluation uses the device."""
        with self.waits.waiting(), self._changed:
            if self.obstructed:
                self._leave()
                self._enter()

    def _enter(self) -> None:
        self._changed.wait_for(lambda: not self._timing and not self._waiting_timers)
        if not self._checking:
            self._lock(fcntl.LOCK_SH)
        self._checking.add(threading.get_ident())

    def _leave(self) -> None:
        self._checking.remove(threading.get_ident())
        if not self._checking:
            self._locks.close()
            self._changed.notify_all()

    @property
    def has_paused(self) -> bool:
        """True while a timer has paused some process, whose queued work the device may still have to do."""
        return bool(self._paused)

    @contextmanager
    def exclusive(self, *used: Pausable) -> Iterator[None]:
        """Hold the lock for timing: alone.  Processes that run apart are paused, other than those `used`."""
        with self.waits.waiting(), self._changed:
            self._waiting_timers += 1
            try:
                self._changed.wait_for(lambda: not self._timing and not self._checking)
            finally:
                self._waiting_timers -= 1
            self._lock(fcntl.LOCK_EX)
            self._timing = True
            self._paused = self._to_pause(used)
        try:
            for each in self._paused:
                each.pause()
            yield
        finally:
            for each in self._paused:
                each.resume()
            with self._changed:
                self._paused = []
                self._timing = False
                self._locks.close()
                self._changed.notify_all()

    def pause_all(self, *used: Pausable) -> bool:
        """Pause what still runs apart, other than the processes `used`, until the lock that this thread holds for
        timing is given up: something keeps the device busy.  False where nothing does run."""
        with self._changed:
            standing = (*used, *self._paused)
            more = [each for each in self._running_apart(math.inf) if all(each is not one for one in standing)]
            self._paused += more
        for each in more:
            each.pause()
        return bool(more)

    def _to_pause(self, used: tuple[Pausable, ...]) -> list[Pausable]:
        return [each for each in self._running_apart(time.monotonic()) if all(each is not one for one in used)]

    def _running_apart(self, now: float) -> list[Pausable]:
        """Processes that timers may pause at that time, each once."""
        due = (each.process for each in self._apart if each.paused_from <= now)
        return list({id(process): process for process in due if process is not None}.values())

    @contextmanager
    def apart(self, process: Pausable) -> Iterator[None]:
        """Note that a candidate's first call runs, for which no timer waits: it may compile for a minute, and
        compute."""
        with self._changed:
            gone = self._go(process, COMPILING_S)
        try:
            yield
        finally:
            with self._changed:
                self._come_back(gone)

    def wait_for_those_apart(self, timeout_s: float) -> None:
        """Wait until no first call of a thread of this referee is running, without holding anything."""
        with self.waits.waiting(), self._changed:
            self._changed.wait_for(lambda: not self._apart, timeout_s)

    def _lock(self, kind: int) -> None:
        """Lock against other processes; this process's threads wait meanwhile, as they would have to anyway."""
        with _locked(self._turnstile, kind):
            self._locks.enter_context(_locked(self._device, kind))


@contextmanager
def _locked(path: Path, kind: int) -> Iterator[None]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, kind)
        yield
    finally:
        os.close(fd)  # and with it the lock
