"""`assay up` keeps its child processes running, with growing pauses before a child
that keeps ending is restarted.
"""

from __future__ import annotations

import fcntl
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import click

from app.cli.child_processes import Child
from app.cli.errors import InfrastructureError
from app.embedded import MissingBinaryError, Postgres, ServerError, Services, Valkey, make_state_dir

WATCH_S = 1.0
"""Period of the check of child processes, in seconds."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
"""First and longest pause before an ended process is restarted, in seconds; it
doubles each time.
"""
QUIET_S = 300.0
"""A process that has run for this long is started again as if it had never ended
before, in seconds.
"""

LOCK_FILE = "up.lock"
"""Held by the `assay up`, or `assay demo --serve`, of a state folder; holds its process id."""

FAILURES = (ServerError, MissingBinaryError, OSError)
"""Reasons for which a start may fail that may be gone later: no memory, no room on
the disk, a port in use.
"""


class Stopped:
    """Set by SIGINT and SIGTERM, so that children are always stopped in order."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def __enter__(self) -> Stopped:
        self._before = {
            number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)
        }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def wait(self, timeout_s: float) -> bool:
        """Wait so long, or until the end is requested; True if it is."""
        return self._event.wait(timeout_s)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._event.set()


@contextmanager
def alone(state_dir: Path) -> Iterator[None]:
    """Hold the lock of the state folder.  Raises InfrastructureError where another
    process holds it: its devices would be served by two workers each, and its web's
    address be taken for this one's.

    The kernel drops the lock of a process that was killed.
    """
    make_state_dir(state_dir)
    with (state_dir / LOCK_FILE).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise InfrastructureError(
                f"{state_dir}: a web server and workers run there already, started by process"
                f" {lock.read()}: stop it, or choose another folder with ASSAY_STATE_DIR"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


@dataclass(kw_only=True)
class Kept:
    """A process, or a server, that is kept running."""

    name: str
    log: Path
    ended: Callable[[], str | None]
    """How it has ended, in words; None while it runs."""
    start: Callable[[], None]
    _pause_s: float = field(default=0.0, init=False)
    _started_s: float = field(default=float("-inf"), init=False)
    _due_s: float | None = field(default=None, init=False)
    """When it is started again."""

    def keep(self, now_s: float) -> None:
        """Restart the process if it has ended and its pause is over, and say so.  A
        failed start raises nothing.
        """
        if self._due_s is None:
            how = self.ended()
            if how is None:
                return
            self._postpone(now_s, how)
        if self._due_s is not None and now_s >= self._due_s:
            self._due_s, self._started_s = None, now_s
            try:
                self.start()
            except FAILURES as error:
                self._postpone(now_s, f"could not be started: {error}")

    def _postpone(self, now_s: float, how: str) -> None:
        quiet = now_s - self._started_s >= QUIET_S
        self._pause_s = FIRST_PAUSE_S if quiet else min(LONGEST_PAUSE_S, 2 * self._pause_s)
        self._due_s = now_s + self._pause_s
        click.echo(
            f"{self.name} {how}; starting it again in {self._pause_s:g} s (its log is {self.log})",
            err=True,
        )


def supervised(children: Sequence[Child], services: Services | None) -> list[Kept]:
    """The embedded servers, before all that need them, and the children."""
    servers = [_server(services, each) for each in services.servers] if services is not None else []
    return servers + [kept(child) for child in children]


def kept(child: Child) -> Kept:
    """A child that is kept running."""
    return Kept(name=child.name, log=child.log, ended=child.how_it_ended, start=child.start_again)


def _server(services: Services, server: Postgres | Valkey) -> Kept:
    return Kept(
        name=server.name,
        log=server.log,
        ended=lambda: None if server.is_alive else "has ended",
        start=lambda: services.start_again(server),
    )


def keep(everything: Sequence[Kept]) -> None:
    """Look at everything once."""
    for each in everything:
        each.keep(time.monotonic())
