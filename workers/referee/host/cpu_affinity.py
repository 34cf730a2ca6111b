"""Assignment of the host's cores: a few are kept quiet for timed processes, the
others do everything else.

A process that shares a core, or a core's other hardware thread, with a compiler launches
kernels at half the speed; on an H200 host this turned ratios of 1.00 into 0.96.  So the
stopwatch and the timed processes have cores of their own, and each GPU has its own set: timing
on one GPU never waits for another.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TIMED = 4
"""Cores for the timed process.  CUDA's own threads must not wait for the thread that waits for
them; with two cores they do (milliseconds, in every third block).
"""

SET = TIMED + 2
"""Cores per GPU: the stopwatch's, those of the timed process, and an idle one between them."""

LEFT = 4
"""Least number of other cores.  With fewer, none are set apart, because compiling
would take too long.
"""

_NODES = Path("/dev")
_TOPOLOGY = Path("/sys/devices/system/cpu")


@dataclass(frozen=True, kw_only=True)
class Cores:
    """A partition of the processors that this process may use."""

    stopwatch: frozenset[int]
    timed: frozenset[int]
    others: frozenset[int]

    @property
    def awake(self) -> list[int]:
        """Processors that must not go idle during timing."""
        return sorted(self.stopwatch | self.timed)

    @property
    def are_apart(self) -> bool:
        """True if the timed processes have cores of their own."""
        return self.timed != self.others

    @contextmanager
    def quiet(self, pids: list[int]) -> Iterator[None]:
        """Run these processes on the quiet cores."""
        for pid in pids:
            _move(pid, self.timed)
        try:
            yield
        finally:
            for pid in pids:
                _move(pid, self.others)

    def launch_from(self, core: int, pids: list[int]) -> None:
        """Bind the first threads of these processes, which launch, to one of the quiet cores: only
        one side runs at a time, and two cores are equally fast only by chance.

        Ratios of a kernel of 30 µs, mostly launch overhead, varied by 7 % in 24
        evaluations; by 16 % with first threads on any quiet core, by 42 % with a core for
        each side (H200, a noisy host; calls of 20 µs: 4, 10 and 11 %; of 300 µs: 0.5, 0.4
        and 0.8 %; tests/bench/gpu_cores.py).
        """
        for pid in pids:
            _bind(pid, frozenset({core}))


def partition(index: int = 0, gpus: int = 1) -> Cores:
    """Cores for the GPU `index` of the host's `gpus`: one core for the stopwatch and `TIMED`
    for the timed process, with an idle one between them, since a virtual machine may hide which
    of its processors share a core.  Second hardware threads stay idle as well.  Cores set apart
    for no GPU do everything else.

    With too few cores for all GPUs, several share a set; with too few for one, all
    processors do everything.
    """
    usable = os.sched_getaffinity(0)
    cores = sorted({_siblings(cpu) & usable for cpu in usable}, key=min)
    sets = min(max(gpus, index + 1), (len(cores) - LEFT) // SET)
    if sets < 1:
        everything = frozenset(usable)
        return Cores(stopwatch=everything, timed=everything, others=everything)
    end = len(cores) - SET * (index % sets)  # the first GPU has the last cores
    *timed, _, stopwatch = cores[end - SET : end]
    return Cores(
        stopwatch=frozenset({min(stopwatch)}),
        timed=frozenset(min(core) for core in timed),
        others=frozenset().union(*cores[: len(cores) - SET * sets]),
    )


def gpus() -> int:
    """Number of GPUs visible to this process, by their device nodes; 1 if it sees none."""
    return max(
        1, sum(node.name.removeprefix("nvidia").isdecimal() for node in _NODES.glob("nvidia*"))
    )


def _siblings(cpu: int) -> frozenset[int]:
    """The processors of one core, as the kernel lists them (0-1,8); the processor
    alone if it lists none.
    """
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
    """Bind all threads of a process; threads that end meanwhile are skipped."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            _bind(int(task.name), cores)


def _bind(thread: int, cores: frozenset[int]) -> None:
    """Bind one thread, if it exists and this process may bind it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.sched_setaffinity(thread, cores)
