"""BROWSE: counts that the web delegates to another process, because its event loop must not stop
(`app.export.subprocess_entry`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from werkzeug.exceptions import BadRequest, ServiceUnavailable

from app.settings import ARROW_POOL, Settings

MODULE = "app.export.subprocess_entry"
MOST = 2
"""Errands of this process at a time: each takes a core of the database and one of its own."""
RETRY_S = 5
"""Seconds after which to come back while as many are under way."""
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


def _run(settings: Settings, errand: str, asked: dict[str, Any]) -> Iterator[Step]:
    process = subprocess.Popen(
        [sys.executable, "-m", MODULE, errand],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=dict([ARROW_POOL]) | os.environ | settings.to_env(),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(asked, default=str))
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
        process.kill()
        process.stdout.close()
        process.wait()


def _step(said: dict[str, Any]) -> Step:
    if "progress" in said:
        stage, done, total = said["progress"]
        return Step(stage=stage, done=done, total=total)
    return Step(error=str(said["error"])) if "error" in said else Step(answer=said)
