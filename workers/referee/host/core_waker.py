"""Keeps cores awake while an evaluation is timed on them.

A process that waits lets its core halt, and in a virtual machine waking the core takes up to 400
µs, with large variation: on an H200 host, hand-overs of 24 µs became 300 to 500 µs after a few idle
milliseconds.  So a process of the lowest scheduling class (SCHED_IDLE) spins on each such core and
yields every few microseconds.  Its class alone does not make it give way to a process in another
session's group: a process that woke at the start of the spinner's time slice waited for its end, up
to 5 ms (Linux 6.18; tests/bench/wakeups.py).

    python -m workers.referee.host.core_waker PARENT CORE…     spins for ever; started and stopped
                                                                by `CoreWaker`
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workers.referee.host import helper_process
from workers.sandbox import syscalls

SPINS = 500
"""Iterations of an empty loop between two yields: some 10 µs."""


class CoreClaim:
    """A core that no other referee of this host has claimed, the last free one; any
    core if all are claimed.
    """

    def __init__(self, folder: Path) -> None:
        """`folder`: folder shared by all referees of this host.  The kernel releases
        the claim when the holder dies.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        cores = sorted(os.sched_getaffinity(0), reverse=True)
        for self.core in cores:
            self._fd = os.open(
                folder / f"core-{self.core}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(self._fd)
                continue
            return
        self.core, self._fd = cores[0], -1

    def avoid(self) -> None:
        """Keep this process itself off that core: to the scheduler, a spinning core looks idle."""
        os.sched_setaffinity(0, os.sched_getaffinity(0) - {self.core} or {self.core})

    def close(self) -> None:
        """Release the claim."""
        if self._fd >= 0:
            os.close(self._fd)


class CoreWaker:
    """Keeps cores awake on demand.  `close` ends its processes."""

    def __init__(self, cores: list[int]) -> None:
        """Starts the processes, stopped until `awake`."""
        self._process = helper_process.start(
            "workers.referee.host.core_waker", os.getpid(), *cores, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        # Each reports that it dies with its parent; only then may it be stopped.
        self._process.stdout.read(len(cores))
        self._signal(signal.SIGSTOP)

    @property
    def is_alive(self) -> bool:
        """True if the first process has not ended."""
        return self._process.poll() is None

    def _signal(self, number: int) -> None:
        os.killpg(self._process.pid, number)

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Keep the cores awake meanwhile."""
        self._signal(signal.SIGCONT)
        try:
            yield
        finally:
            self._signal(signal.SIGSTOP)

    def close(self) -> None:
        """End the processes, including those that outlive the first."""
        with contextlib.suppress(ProcessLookupError):
            self._signal(signal.SIGKILL)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def _spin_on(parent: int, cores: list[int]) -> None:
    """Fork one process per core; this one spins on the last core."""
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent died before prctl took effect
        return
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    syscalls.nice_session(19)
    for core in cores:
        os.sched_setaffinity(0, {core})
        if core != cores[-1] and os.fork() == 0:
            syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
            break
    os.write(1, b".")
    spin()


def spin() -> None:
    """Keep the core awake, for ever."""
    while True:
        for _ in range(SPINS):
            pass
        os.sched_yield()


if __name__ == "__main__":
    _spin_on(int(sys.argv[1]), [int(core) for core in sys.argv[2:]])
