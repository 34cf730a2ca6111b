"""Fresh processes for candidates, and the end of used ones: from a pool of warm processes on a GPU,
one after the other on the CPU.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from workers.referee.processes.process_handle import ProcessHandle
from workers.referee.processes.warm_pool import WarmPool
from workers.sandbox import syscalls
from workers.sandbox.process_errors import TimedOut, ZygoteError

ATTEMPTS = 3
"""Processes that are tried before the candidate's job fails."""

_log = logging.getLogger(__name__)


class CandidateProcesses(Protocol):
    """Processes of one device, each for one candidate."""

    @property
    def unreaped(self) -> int:
        """Number of retired processes that still exist."""

    def take(self, memory_bytes: int) -> ProcessHandle:
        """A fresh process with that address space, where the device limits it."""

    def retire(self, handle: ProcessHandle) -> None:
        """Have a process do nothing any more, from now on."""

    def reap(self) -> None:
        """End retired processes, while no timing runs."""

    def recycle(self, memory_bytes: int) -> None:
        """Between two jobs: end retired processes, and prepare the next one."""

    def close(self) -> None:
        """End all processes."""


class WarmCandidates:
    """Processes of a GPU.  A retired one is killed at once: a frozen process keeps memory that
    others may have reserved, and a kernel without an end would run on.
    """

    def __init__(self, pool: WarmPool) -> None:
        self._pool = pool

    @property
    def unreaped(self) -> int:
        """Killed processes that still hold device memory."""
        return self._pool.unreaped

    def take(self, memory_bytes: int) -> ProcessHandle:  # noqa: ARG002 (no limit on a GPU)
        """A warm process.  Raises ZygoteError."""
        return self._pool.take()

    def retire(self, handle: ProcessHandle) -> None:
        """Kill it; the pool tears it down."""
        handle.process.start_kill()
        self._pool.reap(handle)

    def reap(self) -> None:
        """Nothing: the pool tears killed processes down by itself."""

    def recycle(self, memory_bytes: int) -> None:
        """Nothing: the pool prepares processes by itself."""

    def close(self) -> None:
        """End the pool."""
        self._pool.close()


class SpareCandidates:
    """Processes of the CPU device: the next one is forked ahead.  There is nothing to warm up that
    the first call does not do as fast.  A retired one stays frozen until it is reaped.
    """

    def __init__(
        self, spawn: Callable[[int], ProcessHandle], require_zygote: Callable[[], None]
    ) -> None:
        """`spawn`: forks a process of so many bytes.  `require_zygote`: raises where none can be
        forked any more.
        """
        self._spawn = spawn
        self._require_zygote = require_zygote
        self._spares: dict[int, ProcessHandle] = {}
        self._retired: list[ProcessHandle] = []

    @property
    def unreaped(self) -> int:
        """Frozen processes."""
        return len(self._retired)

    def prepare(self, memory_bytes: int) -> ProcessHandle:
        """The next process of this size, forked if there is none; others end."""
        for size in list(self._spares):
            if size != memory_bytes:
                self._spares.pop(size).close()
        if memory_bytes not in self._spares:
            self._spares[memory_bytes] = self._spawn(memory_bytes)
        return self._spares[memory_bytes]

    def take(self, memory_bytes: int) -> ProcessHandle:
        """The next process.  Raises ZygoteError."""
        for _ in range(ATTEMPTS):
            handle = self.prepare(memory_bytes)
            self._spares.clear()
            try:
                handle.process.wait_ready()
            except ZygoteError as error:  # the warden could not confine it, or has ended
                _log.warning("a spare process is of no use, another is forked: %s", error)
            else:
                if handle.process.is_running:
                    return handle
                _log.warning("a spare process has ended before it was used, another is forked")
            handle.close()
            self._require_zygote()
        raise ZygoteError(f"expected a process for the candidate, got {ATTEMPTS} that ended")

    def retire(self, handle: ProcessHandle) -> None:
        """Freeze it."""
        try:
            handle.process.freeze()
        except TimedOut:  # it multiplies faster than it can be stopped
            handle.process.kill()
        self._retired.append(handle)

    def reap(self) -> None:
        """End frozen processes."""
        for handle in self._retired:
            handle.close()
        self._retired.clear()

    def recycle(self, memory_bytes: int) -> None:
        """End frozen processes, release free memory of the heap (0.3 GB after comparisons of
        outputs), and fork the next process.
        """
        self.reap()
        syscalls.release_free_heap()
        self.prepare(memory_bytes)

    def close(self) -> None:
        """End all processes."""
        for handle in [*self._spares.values(), *self._retired]:
            handle.close()
