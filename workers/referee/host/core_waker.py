"""Keeps cores awake while an evaluation is timed on them, and tells how fast each of them is.

A process that waits lets its core halt, and in a virtual machine waking the core takes up to 400
µs, with large variation: on an H200 host, hand-overs of 24 µs became 300 to 500 µs after a few idle
milliseconds.  So a process of the lowest scheduling class (SCHED_IDLE) spins on each such core and
yields every few microseconds.  Its class alone does not make it give way to a process in another
session's group: a process that woke at the start of the spinner's time slice waited for its end, up
to 5 ms (Linux 6.18; tests/bench/wakeups.py).

A core of a virtual machine shares its hardware with others' machines: for some 30 ms at a time it
computes at 0.6 of its speed, each core at other times, whatever this machine's other cores do (H200
host; tests/bench/core_speeds.py).  So the spinners measure their own loops.

    python -m workers.referee.host.core_waker PARENT FD CORE…  spins for ever; started and stopped
                                                                by `CoreWaker`
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import signal
import subprocess
import sys
import time
from array import array
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workers.referee.host import helper_process
from workers.sandbox import syscalls

SPINS = 500
"""Iterations of an empty loop between two yields: some 10 µs."""

RECENT = 8
"""Kept times of loops, for each core."""

FRESH_NS = 1_000_000
"""Nanoseconds since the last loop of a core beyond which its speed is unknown: another process has
had it since.
"""

REMEMBERED = 64
"""Blocks that tell how fast the fastest core usually is."""

_ROW = RECENT + 1
"""Numbers of a core: nanoseconds of its last loops, and the time at which the last one ended."""

_UNKNOWN = memoryview(array("Q", [2**64 - 1] * RECENT))
"""Times of loops before the first."""


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
        self._rows = {core: index * _ROW for index, core in enumerate(cores)}
        self.fastest_ns: deque[int] = deque(maxlen=REMEMBERED)
        """Nanoseconds of a loop on the fastest core before each of the last blocks."""
        fd = os.memfd_create("loop-times")
        try:
            os.ftruncate(fd, len(cores) * _ROW * 8)
            self._times = mmap.mmap(fd, 0)
            with memoryview(self._times).cast("Q") as times:
                for row in self._rows.values():
                    times[row : row + RECENT] = _UNKNOWN
            self._process = helper_process.start(
                "workers.referee.host.core_waker",
                os.getpid(),
                fd,
                *cores,
                stdout=subprocess.PIPE,
                pass_fds=[fd],
            )
        finally:
            os.close(fd)
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

    def loop_ns(self) -> dict[int, int]:
        """Nanoseconds of the fastest of the last loops on each core that is free and awake."""
        with memoryview(self._times).cast("Q") as times:
            now = time.perf_counter_ns()
            return {
                core: min(times[row : row + RECENT])
                for core, row in self._rows.items()
                if now - times[row + RECENT] < FRESH_NS
            }

    @property
    def usual_ns(self) -> int:
        """Nanoseconds of a loop on the fastest core in the faster quarter of the last blocks; 0
        before the first.
        """
        found = sorted(self.fastest_ns)
        return found[len(found) // 4] if found else 0

    def close(self) -> None:
        """End the processes, including those that outlive the first."""
        with contextlib.suppress(ProcessLookupError):
            self._signal(signal.SIGKILL)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._times.close()


def _spin_on(parent: int, fd: int, cores: list[int]) -> None:
    """Fork one process per core; this one spins on the last core.  `fd`: memory for the times of
    loops.
    """
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent died before prctl took effect
        return
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    syscalls.nice_session(19)
    times = memoryview(mmap.mmap(fd, 0)).cast("Q")
    for core in cores:
        os.sched_setaffinity(0, {core})
        if core != cores[-1] and os.fork() == 0:
            syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
            break
    os.write(1, b".")
    row = cores.index(core) * _ROW
    spin(times[row : row + _ROW])


def spin(times: memoryview) -> None:
    """Keep the core awake, for ever.  `times`: this core's row."""
    now, at = time.perf_counter_ns, 0
    while True:
        began = now()
        for _ in range(SPINS):
            pass
        ended = now()
        times[at] = ended - began
        times[RECENT] = ended
        at = (at + 1) % RECENT
        os.sched_yield()


if __name__ == "__main__":
    _spin_on(int(sys.argv[1]), int(sys.argv[2]), [int(core) for core in sys.argv[3:]])
