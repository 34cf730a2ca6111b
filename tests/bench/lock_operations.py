"""Operations of an evaluation while it holds a device's lock, while another bench runs.

    python -m tests.bench.lock_operations operations.json tests.bench.gpu_eval group --slots 8

For each way of holding the lock (`exclusive`: blocks are timed; `shared`: inputs are drawn, outputs
checked): milliseconds and number of each operation for one evaluation, by the function that asks
for it.  The time of an operation is without that of the operations within it, and `other` is the
rest.  Times of `shared` include waits for Python's lock and for other evaluations' operations.
"""

from __future__ import annotations

import functools
import json
import runpy
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from workers.referee import candidate_stages, resources
from workers.referee.host import cpu_affinity
from workers.referee.host.core_waker import CoreWaker
from workers.referee.host.device_lock import DeviceLock, Pausable
from workers.referee.host.health import Health
from workers.referee.processes import process_session, snapshot
from workers.referee.processes.process_handle import ProcessHandle
from workers.referee.processes.process_session import Session
from workers.referee.session import call_runner, draws, idle_probe
from workers.referee.session.call_runner import CallRunner
from workers.referee.session.idle_probe import IdleProbe
from workers.referee.session.verification import Verification
from workers.sandbox.confined_process import ConfinedProcess

WATCHED: tuple[tuple[Any, str], ...] = (
    (ConfinedProcess, "freeze"),
    (ConfinedProcess, "require_frozen"),
    (ConfinedProcess, "timed"),
    (ConfinedProcess, "receive"),
    (ConfinedProcess, "thaw"),
    (ConfinedProcess, "pause"),
    (ConfinedProcess, "resume"),
    (IdleProbe, "answer_ns"),
    (IdleProbe, "flush_caches"),
    (Session, "delivered"),
    (Session, "pointers"),
    (ProcessHandle, "map_segment"),
    (snapshot.Snapshot, "differs"),
    (CallRunner, "fill"),
    (CallRunner, "delivery"),
    (CallRunner, "warm"),
    (Verification, "verify"),
    (Verification, "are_right"),
    (Health, "canary_us"),
    (Health, "clocks"),
    (Health, "require_sound"),
    (CoreWaker, "_signal"),
    (cpu_affinity, "_move"),
    (call_runner, "synchronize"),
    (draws, "synchronize"),
    (process_session, "synchronize"),
    (idle_probe, "synchronize"),
    (call_runner, "changed"),
)
"""Operations: functions of modules and classes."""


class Operations:
    """Seconds and number of operations, by the way in which a thread holds the lock."""

    def __init__(self) -> None:
        """With nothing counted."""
        self.seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
        self.counts: defaultdict[tuple[str, str], int] = defaultdict(int)
        self.evaluations = 0
        self._here = threading.local()

    def begin(self, kind: str) -> None:
        """Note that this thread holds the lock in this way from now on."""
        self._here.kind, self._here.within = kind, []
        self._here.began, self._here.covered = time.perf_counter(), 0.0

    def end(self) -> None:
        """Count the time that belongs to no operation."""
        kind, held_s = self._here.kind, time.perf_counter() - self._here.began
        self._here.kind = None
        self.seconds[kind, "other"] += held_s - self._here.covered
        self.counts[kind, "other"] += 1

    def watched(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function with its time counted while the calling thread holds the lock."""

        @functools.wraps(function)
        def counted(*given: Any, **named: Any) -> Any:
            kind, here = getattr(self._here, "kind", None), self._here
            if kind is None:
                return function(*given, **named)
            caller = sys._getframe(1).f_code.co_name
            within = here.within  # another list once the function has let a timer go first
            within.append(0.0)
            began = time.perf_counter()
            try:
                return function(*given, **named)
            finally:
                taken = time.perf_counter() - began
                inner = within.pop()
                if within:
                    within[-1] += taken
                else:
                    here.covered += taken
                self.seconds[kind, f"{name} < {caller}"] += taken - inner
                self.counts[kind, f"{name} < {caller}"] += 1

        return counted

    def report(self) -> dict[str, Any]:
        """Everything counted so far, for one evaluation."""
        each = max(1, self.evaluations)
        kinds = sorted({kind for kind, _ in self.seconds})
        return {
            "evaluations": self.evaluations,
            **{
                kind: {
                    name: [
                        round(1000 * seconds / each, 3),
                        round(self.counts[kind, name] / each, 1),
                    ]
                    for (held, name), seconds in sorted(
                        self.seconds.items(), key=lambda item: -item[1]
                    )
                    if held == kind
                }
                for kind in kinds
            },
        }


OPERATIONS = Operations()


class WatchedLock(DeviceLock):
    """A lock that tells `OPERATIONS` its holder."""

    def _begin_checking(self) -> None:
        super()._begin_checking()
        OPERATIONS.begin("shared")

    def _leave(self) -> None:
        OPERATIONS.end()
        super()._leave()

    @contextmanager
    def exclusive(self, *used: Pausable) -> Iterator[None]:
        """See DeviceLock."""
        with super().exclusive(*used):
            OPERATIONS.begin("exclusive")
            try:
                yield
            finally:
                OPERATIONS.end()


def watch() -> None:
    """Replace the operations by counted ones, and count evaluations."""
    for owner, name in WATCHED:
        label = f"{owner.__name__.rpartition('.')[2]}.{name}"
        setattr(owner, name, OPERATIONS.watched(label, getattr(owner, name)))
    setattr(time, "sleep", OPERATIONS.watched("sleep", time.sleep))  # noqa: B010 (of all modules)
    setattr(resources, "DeviceLock", WatchedLock)  # noqa: B010 (it is not for others to import)
    run = candidate_stages.run

    def counted(*given: Any) -> None:
        OPERATIONS.evaluations += 1
        run(*given)

    setattr(candidate_stages, "run", counted)  # noqa: B010


def main() -> None:
    """See above."""
    if len(sys.argv) < 3:
        sys.exit(
            f"usage: python -m tests.bench.lock_operations FILE MODULE [ARGUMENT…]\n\n{__doc__}"
        )
    path, module = Path(sys.argv[1]), sys.argv[2]
    sys.argv = sys.argv[2:]
    watch()
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        path.write_text(json.dumps(OPERATIONS.report(), indent=1))


if __name__ == "__main__":
    main()
