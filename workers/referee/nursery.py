"""Spares: processes that are ready before their candidate arrives.

On a GPU each has its context and has compiled a first kernel, which takes the better part of a second, most of it on
one core; the driver makes one context at a time.  So several threads raise one spare each, and one of them at a time
makes a context.  Teardown is done here too, off everybody's path."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import nullcontext

from workers.referee.lease import Lease
from workers.referee.party import FailedError, Party
from workers.sandbox.spawn import Ended, TimedOut, ZygoteError
from workers.wire import Command

WARM_TIMEOUT_S = 60.0
END_TIMEOUT_S = 5.0
ATTEMPTS = 3


class Nursery:
    """Keeps `spares` processes ready.  Has a lifetime."""

    def __init__(self, spawn: Callable[[], Party], lease: Lease, spares: int, *, steady: bool = False) -> None:
        """Begins at once.

        `steady`: contexts are made only while nobody is timed.  One takes 150 ms with some thirty of them on the
        device, for which every timer then waits; else a block that meets one is an outlier among its groups."""
        self._steady = steady
        self._spawn = spawn
        self._lease = lease
        self._ready: queue.Queue[Party | Exception] = queue.Queue()
        self._wanted = threading.Semaphore(spares)
        self._context = threading.Lock()
        self._ended: queue.Queue[Party | None] = queue.Queue()
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._raise, daemon=True) for _ in range(spares)]
        self._threads.append(threading.Thread(target=self._bury, daemon=True))
        for thread in self._threads:
            thread.start()

    def take(self) -> Party:
        """The next spare; another is begun.  Raises ZygoteError where none can be raised."""
        party = self._ready.get(timeout=ATTEMPTS * WARM_TIMEOUT_S)
        self._wanted.release()
        if isinstance(party, Exception):
            raise ZygoteError(f"no candidate's process could be prepared: {party}") from party
        return party

    def bury(self, party: Party) -> None:
        """End a process that has served, some time soon."""
        self._ended.put(party)

    def _raise(self) -> None:
        while True:
            self._wanted.acquire()
            if self._over.is_set():
                return
            raised = self._one()
            if self._over.is_set() and isinstance(raised, Party):  # nobody will come for it
                raised.close()
            else:
                self._ready.put(raised)

    def _one(self) -> Party | Exception:
        """A warm process, or why there is none after some attempts."""
        reason: Exception = ZygoteError("not tried")
        for _ in range(ATTEMPTS):
            if self._over.is_set():
                break
            try:
                party = self._spawn()
            except ZygoteError as error:
                reason = error
                continue
            try:
                party.process.wait_ready()
                with self._context, self._lease.shared() if self._steady else nullcontext():
                    party.ask(Command.WARM, WARM_TIMEOUT_S)
                party.ask(Command.COMPILE_FIRST, WARM_TIMEOUT_S)
                return party
            except (FailedError, Ended, TimedOut, ValueError, ZygoteError) as error:
                party.close()
                reason = error
        return reason

    def _bury(self) -> None:
        while (party := self._ended.get()) is not None:
            party.process.kill(wait_s=END_TIMEOUT_S)
            with self._lease.shared():  # to unmap memory stops the device for a moment
                party.close()

    def close(self) -> None:
        """End all spares.  What is being raised dies with the zygote."""
        self._over.set()
        for _ in self._threads:
            self._wanted.release()
        self._ended.put(None)
        while not self._ready.empty():
            spare = self._ready.get()
            if isinstance(spare, Party):
                spare.close()
