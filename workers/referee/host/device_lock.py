"""The lock of a device: shared by evaluations that load and check, exclusive for one that times.

A thread that holds the lock shared is a checker, one that holds it exclusively, or waits for that,
a timer.

Between processes the lock is a file that every user of the device locks (flock); the kernel
releases it when the holder dies.  A waiting timer holds a second file (the turnstile), so that
later checkers cannot starve it.

Between the threads of one referee timers go first, one after the other: each change from checking
to timing waits for the slowest checker, so such changes are rare.  A thread that checks for long
yields to timers in between: with eight evaluations in flight on an H200, where some checks lasted
100 ms, timers spent a third of all time waiting for the last checker.  No checker starves, because
timers come from checkers.

An evaluation that holds much of the device's memory is favoured: its thread goes first among
timers, and it yields to favoured timers only.  Others wait for that memory: with equal turns the 50
largest problems of KernelBench, of which hardly two fit at once, took a whole sweep one after the
other (eight evaluations in flight, H200).

Long work runs apart: a candidate's first call, which may compile for a minute, and a problem's own
code.  Timers do not wait for it.  They pause its process, so that it neither computes on the device
meanwhile nor loses its own time.  A first call is not paused while it seems to compile.  If timers
waited for all requests to references, they would do so for 40 % of a sweep of KernelBench (eight
evaluations in flight, H200).
"""

from __future__ import annotations

import fcntl
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from workers.referee.host.uncharged_time import UnchargedTime

COMPILING_S = 1.0
"""Seconds that a first call runs apart before timers pause it.  A Triton kernel compiles in a third
of a second, on the host, while others are timed for a third of all time (small problems, H200).
"""


_LATEST = sys.float_info.max
"""Time by which everything is paused, except processes that only a restless device has paused."""


class Pausable(Protocol):
    """A process that a timer can stop for a while."""

    @property
    def paused_s(self) -> float:
        """Seconds for which it has been stopped so far."""
        ...

    def pause(self) -> None:
        """Stop it."""
        ...

    def resume(self) -> None:
        """Continue it."""
        ...


GoApart = Callable[[Pausable | None], None]
"""Function to be called once a request takes long, at most twice: with the process, or with None
while another thread's request is waited for.
"""


@dataclass(frozen=True, kw_only=True, eq=False)
class Apart:
    """Work that runs apart."""

    process: Pausable | None
    paused_from: float
    """Time (time.monotonic) from which on timers pause it."""
    paused_s: float
    """Seconds for which its process had been paused before."""
    thread: int
    """Id of the thread that waits for it."""


class DeviceLock:
    """Lock of one device.  Thread-safe."""

    def __init__(self, folder: Path, device_id: str) -> None:
        """`folder`: folder shared by all referees of this host."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._device = folder / f"{device_id}.lease"
        self._turnstile = folder / f"{device_id}.turnstile"
        self._changed = threading.Condition()
        self._checking: set[int] = set()
        """Ids of threads that check."""
        self._waiting_timers: set[int] = set()
        """Ids of threads that wait to time."""
        self._favoured: set[int] = set()
        """Ids of threads that go first."""
        self._timing = False
        self._apart: list[Apart] = []
        """Processes that run apart, one for each thread that waits for it."""
        self._paused: list[Pausable] = []
        """Processes that the timer has paused."""
        self._locks = ExitStack()
        """Locks of both files, while a thread checks or times."""
        self.uncharged = UnchargedTime()
        """Time that each thread has waited, for the device or anything else counted there."""

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold the lock for checking: together with others that check, never during timing."""
        with self.uncharged.waiting(), self._changed:
            self._enter()
        try:
            yield
        finally:
            with self._changed:
                self._leave()

    @contextmanager
    def shared_at_first(self) -> Iterator[GoApart]:
        """Hold the lock while a problem's own code runs, which may take long: as `shared` until the
        yielded function is called, then as `apart`, so that timers do not wait for it.
        """
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

    @property
    def obstructed(self) -> bool:
        """True while this thread checks and a timer of another thread waits that goes first."""
        return threading.get_ident() in self._checking and self._comes_later(timing=False)

    def yield_to_timers(self) -> None:
        """Let waiting timers go first if this thread checks.  The caller holds no other lock that a
        timer may need, and nothing of its evaluation uses the device.
        """
        with self.uncharged.waiting(), self._changed:
            if self.obstructed:
                self._leave()
                self._enter()

    @contextmanager
    def favoured(self) -> Iterator[None]:
        """Favour this thread: other timers wait until it neither checks nor waits to time."""
        with self._changed:
            self._favoured.add(threading.get_ident())
        try:
            yield
        finally:
            with self._changed:
                self._favoured.remove(threading.get_ident())
                self._changed.notify_all()

    @contextmanager
    def apart(self, process: Pausable, *, paused_after_s: float | None = None) -> Iterator[None]:
        """Run apart: no timer waits for a candidate's first call, which may compile for a minute,
        and compute.  `paused_after_s`: seconds from which on timers pause it, COMPILING_S by
        default; infinite: only where the device does not come to rest (`pause_all`).
        """
        with self._changed:
            gone = self._go(process, COMPILING_S if paused_after_s is None else paused_after_s)
        try:
            yield
        finally:
            with self._changed:
                self._come_back(gone)

    @contextmanager
    def apart_meanwhile(self, process: Pausable) -> Iterator[None]:
        """Run apart within `shared`, while this thread waits for a long request to `process`;
        afterwards this thread checks again.

        It does not wait for timers that wait themselves, so it may hold the lock of `process` if no
        timer can need that: one that held the device and waited for the process would never end.
        """
        with self._changed:
            self._leave()
            gone = self._go(process, 0.0)
        try:
            yield
        finally:
            with self._changed:
                self._come_back(gone)
                with self.uncharged.waiting():
                    self._changed.wait_for(lambda: not self._timing)
                self._begin_checking()

    def waited_s(self, thread: int) -> float:
        """Seconds that a thread has waited for others so far, with those for which the
        process that it waits for apart has been paused: they are added to `uncharged` when that
        has ended.  Does not wait for the lock.
        """
        gone = [
            (each.process, each.paused_s) for each in tuple(self._apart) if each.thread == thread
        ]
        pauses_s = sum(
            process.paused_s - before_s for process, before_s in gone if process is not None
        )
        return self.uncharged.waited_s(thread) + pauses_s

    def wait_for_apart(self, timeout_s: float) -> None:
        """Wait, without holding a lock, until everything that runs apart now has ended.  Work that
        begins later is paused in time, and among eight evaluations there is nearly always some.
        """
        with self.uncharged.waiting(), self._changed:
            there = tuple(each for each in self._apart if each.paused_from < math.inf)
            self._changed.wait_for(
                lambda: not any(each in there for each in self._apart), timeout_s
            )

    @contextmanager
    def exclusive(self, *used: Pausable) -> Iterator[None]:
        """Hold the lock for timing, alone.  Processes that run apart are paused,
        except those `used`.
        """
        with self.uncharged.waiting(), self._changed:
            self._waiting_timers.add(threading.get_ident())
            try:
                self._changed.wait_for(
                    lambda: not (self._timing or self._checking or self._comes_later(timing=True))
                )
            finally:
                self._waiting_timers.remove(threading.get_ident())
            self._lock(fcntl.LOCK_EX)
            self._timing = True
            self._paused = self._to_pause(used, time.monotonic())
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
        """Pause everything that still runs apart, except the processes `used`, until this thread
        releases its exclusive lock: something keeps the device busy.  Processes that load a
        candidate, which mostly compile on the host, are paused once no other is left.  False if
        nothing runs apart.
        """
        with self._changed:
            standing = (*used, *self._paused)
            more = self._to_pause(standing, _LATEST) or self._to_pause(standing, math.inf)
            self._paused += more
        for each in more:
            each.pause()
        return bool(more)

    @property
    def has_paused(self) -> bool:
        """True while a timer has paused a process; the device may still have to do
        work that it queued.
        """
        return bool(self._paused)

    def _enter(self) -> None:
        self._changed.wait_for(lambda: not self._timing and not self._comes_later(timing=False))
        self._begin_checking()

    def _comes_later(self, *, timing: bool) -> bool:
        """Test whether a timer waits that goes before this thread, which times or checks: favoured
        threads go before others, and timers before checks of their kind.
        """
        favoured = threading.get_ident() in self._favoured
        if timing and favoured:
            return False
        ahead = self._waiting_timers  # read at once: `obstructed` holds no lock
        return bool(ahead & self._favoured if timing or favoured else ahead)

    def _begin_checking(self) -> None:
        if not self._checking:
            self._lock(fcntl.LOCK_SH)
        self._checking.add(threading.get_ident())

    def _leave(self) -> None:
        self._checking.remove(threading.get_ident())
        if not self._checking:
            self._locks.close()
            self._changed.notify_all()

    def _go(self, process: Pausable | None, after_s: float) -> Apart:
        paused_s = 0.0 if process is None else process.paused_s
        paused_from, thread = time.monotonic() + after_s, threading.get_ident()
        gone = Apart(process=process, paused_from=paused_from, paused_s=paused_s, thread=thread)
        self._apart.append(gone)
        return gone

    def _come_back(self, gone: Apart) -> None:
        """End running apart.  A paused process is continued before its thread goes
        on; the pauses count as waits.
        """
        process = gone.process
        with self.uncharged.waiting():
            self._changed.wait_for(lambda: all(each is not process for each in self._paused))
        self._apart.remove(gone)
        if process is not None:
            self.uncharged.add(process.paused_s - gone.paused_s)
        self._changed.notify_all()

    def _to_pause(self, standing: tuple[Pausable, ...], until: float) -> list[Pausable]:
        """Processes that timers may pause by that time, without some."""
        running = self._running_apart(until)
        return [each for each in running if all(each is not one for one in standing)]

    def _running_apart(self, now: float) -> list[Pausable]:
        """Processes that timers may pause at that time, each once."""
        due = (each.process for each in self._apart if each.paused_from <= now)
        return list({id(process): process for process in due if process is not None}.values())

    def _lock(self, kind: int) -> None:
        """Lock against other processes; this process's threads wait meanwhile, as
        they would have to anyway.
        """
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
