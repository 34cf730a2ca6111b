"""Which of the host's cores do what: a few are kept quiet for those who are timed, the others do all the rest.

A process that shares a core, or the other thread of one, with a compiler launches its kernels at half the speed; on an
H200 host that made ratios of 1.00 into 0.96.  So the stopwatch and the timed processes have cores of their own."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TIMED = 4
"""Cores for the process that is timed: CUDA's own threads must not wait for the one that waits for them, and with two
they do (milliseconds, in every third block)."""

LEAST = 10
"""Of a host with fewer cores none are set apart: compiling would take too long."""

_TOPOLOGY = Path("/sys/devices/system/cpu")


@dataclass(frozen=True, kw_only=True)
class Cores:
    """A partition of the processors that this process may use."""

    stopwatch: frozenset[int]
    timed: frozenset[int]
    others: frozenset[int]

    @property
    def awake(self) -> list[int]:
        """Processors that must not fall asleep while somebody is timed."""
        return sorted(self.stopwatch | self.timed)

    @contextmanager
    def quiet(self, pids: list[int]) -> Iterator[None]:
        """These processes run on the quiet cores meanwhile, with all their threads."""
        for pid in pids:
            _move(pid, self.timed)
        try:
            yield
        finally:
            for pid in pids:
                _move(pid, self.others)


def partition() -> Cores:
    """One core for the stopwatch and `TIMED` for the timed, with an idle one between them, since a virtual machine may
    not say which two of its processors share a core; their second threads, too, are left idle.  All for all where there
    are too few."""
    usable = os.sched_getaffinity(0)
    cores = sorted({_siblings(cpu) & usable for cpu in usable}, key=min)
    if len(cores) < LEAST:
        everything = frozenset(usable)
        return Cores(stopwatch=everything, timed=everything, others=everything)
    *timed, between, stopwatch = cores[-TIMED - 2 :]
    return Cores(
        stopwatch=frozenset({min(stopwatch)}), timed=frozenset(min(core) for core in timed),
        others=frozenset(usable).difference(stopwatch, between, *timed),
    )  # fmt: skip


def _siblings(cpu: int) -> frozenset[int]:
    """The processors of one core, by the kernel's word (cpu list format: 0-1,8); alone where it has none."""
    try:
        listed = (_TOPOLOGY / f"cpu{cpu}" / "topology" / "thread_siblings_list").read_text()
    except OSError:
        return frozenset({cpu})
    found: set[int] = set()
    for part in listed.strip().split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return frozenset(found | {cpu})


def _move(pid: int, cores: frozenset[int]) -> None:
    """All threads of a process; those that end meanwhile need no core."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.sched_setaffinity(int(task.name), cores)
