"""EXPORT: a process that renders parts for the one that selects.

    worker = RenderWorker(job)
    part = worker.part(number, plan_sha256)     # returns when it is done
    worker.end(at_once=False)

A program of its own and not `multiprocessing`: processes of that begin by importing all that
the main program imports, seconds of processor time before the first row.  Told by lines of
JSON: the job, then a part at a time; each is answered by its number, or by its error.  It
ends when its input is closed.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

import msgspec
import pyarrow as pa

from app.export.render import Job, Part, Renderer, part_path
from app.export.working_folder import FULL
from app.settings import ARROW_POOL
from app.store.postgres.database import DatabaseUnavailableError

COLLECT_AFTER = 100_000
"""New objects between two searches for reference cycles, in place of Python's 700: rows are
millions of tuples without cycles, and searching takes a fifth of the time.
"""


class RenderWorkerError(RuntimeError):
    """A part could not be rendered; the message is the error of the render process."""


class Order(msgspec.Struct, frozen=True):
    """A part to be rendered."""

    number: int
    plan_sha256: str


class Answer(msgspec.Struct, frozen=True):
    """Answer of the render process to one part."""

    number: int
    error: str | None = None
    errno: int | None = None
    """Number of an operating system's error."""
    is_away: bool = False
    """True for an error that is PostgreSQL's absence."""


class RenderWorker:
    """A render process, for one caller at a time."""

    def __init__(self, job: Job) -> None:
        self._job = job
        command = [sys.executable, "-P", "-c", f"from {__name__} import main; main()"]
        environment = dict([ARROW_POOL]) | os.environ if _is_there() else None
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        self._tell(job)  # not in the arguments: it holds a password

    def part(self, number: int, plan_sha256: str) -> Part:
        """Render that part.  Raises RenderWorkerError; an OSError of FULL where the disk has no
        room; DatabaseUnavailableError.
        """
        with suppress(BrokenPipeError):  # its end says more
            self._tell(Order(number, plan_sha256))
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RenderWorkerError(
                f"part {number}: the process that rendered it ended with {self._process.wait()}"
            )
        answer = msgspec.json.decode(line, type=Answer)
        if answer.errno in FULL:
            raise OSError(answer.errno, f"part {number}: {answer.error}")
        if answer.is_away:
            raise DatabaseUnavailableError(f"part {number}: {answer.error}")
        part = Part.load(part_path(self._job.root, number))
        if answer.error is not None or part is None:
            raise RenderWorkerError(f"part {number}: {answer.error or 'is not there'}")
        return part

    def end(self, *, at_once: bool) -> None:
        """End the process: after its current part, or at once."""
        if at_once:
            self._process.kill()
        with suppress(BrokenPipeError), self._process:  # closes its input, and waits
            pass

    def _tell(self, what: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(what, enc_hook=str) + b"\n")
        self._process.stdin.flush()


@contextmanager
def frugal() -> Iterator[None]:
    """Search for cycles rarely, and let Arrow use ARROW_POOL where it asks for a pool."""
    threshold, pool = gc.get_threshold(), pa.default_memory_pool()
    gc.set_threshold(COLLECT_AFTER, *threshold[1:])
    if _is_there():
        pa.set_memory_pool(pa.jemalloc_memory_pool())
    try:
        yield
    finally:
        gc.set_threshold(*threshold)
        pa.default_memory_pool().release_unused()
        pa.set_memory_pool(pool)


def _is_there() -> bool:
    return ARROW_POOL[1] in pa.supported_memory_backends()


def serve(orders: BinaryIO, answers: BinaryIO) -> None:
    """Render the parts that are requested until the input ends."""
    job = msgspec.json.decode(orders.readline(), type=Job, dec_hook=lambda kind, value: kind(value))
    with Renderer(job) as renderer:
        for line in orders:
            order = msgspec.json.decode(line, type=Order)
            answers.write(msgspec.json.encode(_answer(renderer, order)) + b"\n")
            answers.flush()


def _answer(renderer: Renderer, order: Order) -> Answer:
    try:
        renderer.part(order.number, order.plan_sha256)
    except Exception as error:  # noqa: BLE001 (any error is raised again on the other side)
        return Answer(
            order.number,
            f"{type(error).__name__}: {error}",
            getattr(error, "errno", None),
            isinstance(error, DatabaseUnavailableError),
        )
    return Answer(order.number)


def main() -> None:
    """Entry point of the render process."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C is for the process that selects, which then ends this one
    with frugal():
        serve(sys.stdin.buffer, sys.stdout.buffer)
