"""BROWSE: counts that the web delegates to another process, because its event loop must not stop
(`app.export.subprocess_entry`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from werkzeug.exceptions import BadRequest, ServiceUnavailable

from app.settings import ARROW_POOL, Settings

MODULE = "app.export.subprocess_entry"
MOST = 2
"""Errands of this process at a time: each takes a core of the database and one of its own."""
RETRY_S = 5
"""Seconds after which to come back while as many are under way."""
AHEAD_S = 600.0
"""Longest wait of a process for its errand, in seconds."""
_free = threading.BoundedSemaphore(MOST)


class ErrandError(RuntimeError):
    """The process ended without an answer; its last words are the message."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """Progress of an errand, its answer, or its error: one of the three."""

    stage: str = ""
    done: int = 0
    total: int = 0
    """0: not known."""
    answer: dict[str, Any] | None = None
    error: str = ""
    is_busy: bool = False
    """True where MOST errands are under way, and this one was not begun."""
    failed: bool = False
    """True for an infrastructure fault: the process ended without an answer."""


def ask(settings: Settings, errand: str, asked: dict[str, Any]) -> dict[str, Any]:
    """The answer of an errand that takes little time.  Raises BadRequest where the request makes no
    sense, ServiceUnavailable where MOST others are under way, ErrandError where the process fails.
    """
    last = list(steps(settings, errand, asked))[-1]
    if last.is_busy:
        raise ServiceUnavailable(last.error, retry_after=RETRY_S)
    if last.failed:
        raise ErrandError(last.error)
    if last.answer is None:
        raise BadRequest(last.error)
    return last.answer


def steps(settings: Settings, errand: str, asked: dict[str, Any]) -> Iterator[Step]:
    """Progress as it comes, then the answer or an error.  The process ends with the iterator."""
    if not _free.acquire(blocking=False):
        yield Step(
            is_busy=True,
            error=(
                f"{MOST} counts are under way on this server already: try again when one has ended"
            ),
        )
        return
    try:
        yield from _run(settings, errand, asked)
    finally:
        _free.release()


def prepare() -> None:
    """Have every errand from now on leave a process behind that waits for the next one."""
    _ahead.is_wanted = True


def _run(settings: Settings, errand: str, asked: dict[str, Any]) -> Iterator[Step]:
    process = _ahead.taken(settings)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        request = json.dumps({"verb": errand, "asked": asked}, default=str)
        process.stdin.write(f"{request}\n")
        process.stdin.close()
        answered = False
        for line in process.stdout:
            step = _step(json.loads(line))
            answered = answered or not step.stage
            yield step
        if process.wait() or not answered:
            told = f"{errand} ended with {process.returncode}; the server's log holds its messages"
            yield Step(error=told, failed=True)
    finally:
        _end(process)
        _ahead.begin(settings)


class _Ahead:
    """The process of the next errand, begun when the last one has ended: its imports, which take
    a second of a core, are over before it is asked.  It waits for AHEAD_S at most, so that a server
    without errands keeps no memory for it.
    """

    def __init__(self) -> None:
        self.is_wanted = False
        """True in a server; a program that asks once has no use for another process."""
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._settings: Settings | None = None
        self._deadline: threading.Timer | None = None

    def taken(self, settings: Settings) -> subprocess.Popen[str]:
        """The process that waits, if it has these settings; else a new one."""
        process, its = self._emptied()
        if process is not None and its == settings and process.poll() is None:
            return process
        if process is not None:
            _end(process)
        return _started(settings)

    def begin(self, settings: Settings) -> None:
        """Begin a process for the next errand, unless one waits already."""
        if not self.is_wanted:
            return
        process = self.taken(settings)
        with self._lock:
            self._process, self._settings = process, settings
            self._deadline = threading.Timer(AHEAD_S, self.end)
            self._deadline.daemon = True
            self._deadline.start()

    def end(self) -> None:
        """End the process that waits, if one does."""
        process, _ = self._emptied()
        if process is not None:
            _end(process)

    def _emptied(self) -> tuple[subprocess.Popen[str] | None, Settings | None]:
        with self._lock:
            found = self._process, self._settings
            if self._deadline is not None:
                self._deadline.cancel()
            self._process = self._settings = self._deadline = None
        return found


_ahead = _Ahead()


def _started(settings: Settings) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", MODULE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=dict([ARROW_POOL]) | os.environ | settings.to_env(),
    )


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        with suppress(BrokenPipeError):  # it was never asked, or ended before it was
            pipe.close()
    process.wait()


def _step(said: dict[str, Any]) -> Step:
    if "progress" in said:
        stage, done, total = said["progress"]
        return Step(stage=stage, done=done, total=total)
    return Step(error=str(said["error"])) if "error" in said else Step(answer=said)
