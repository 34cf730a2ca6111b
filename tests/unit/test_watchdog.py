"""The process that ends a frozen server process, and no other."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app import watchdog
from tests.processes import children, is_running
from tests.waiting import LIMIT_S, until

SILENT_S = 0.6
SERVER = """
    import time
    from app import watchdog
    watchdog.BEAT_S, watchdog.SILENT_S = 0.02, {silent_s}
    dog = watchdog.Watchdog({form!r}, well=lambda: {well})
    dog.start()
    print(dog._process.pid, flush=True)
    time.sleep(60)
"""


def server(*, well: bool = True, form: str = "plain") -> tuple[subprocess.Popen[str], int]:
    """A process with a watchdog, and the watchdog's id."""
    code = textwrap.dedent(SERVER.format(well=well, form=form, silent_s=SILENT_S))
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=root(),
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def root() -> Path:
    return Path(watchdog.__file__).parents[1]


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_a_frozen_process_is_killed_and_the_log_says_why() -> None:
    process, dog = server(form="json")
    try:
        process.send_signal(signal.SIGSTOP)
        assert process.wait(LIMIT_S) == -signal.SIGKILL
        assert process.stderr is not None
        line = json.loads(process.stderr.readline())
        assert (line["level"], line["logger"]) == ("critical", "app.watchdog")
        assert f"process {process.pid}: no sign of life" in line["message"]
        until(lambda: not is_running(dog))
    finally:
        end(process)


def test_a_process_that_does_not_do_its_work_is_killed() -> None:
    process, _ = server(well=False)
    try:
        assert process.wait(LIMIT_S) == -signal.SIGKILL
    finally:
        end(process)


def test_a_dead_watchdog_is_replaced() -> None:
    process, dog = server()
    try:
        os.kill(dog, signal.SIGKILL)
        until(lambda: set(children(process.pid)) - {dog})
        assert process.poll() is None
        process.send_signal(signal.SIGSTOP)
        assert process.wait(LIMIT_S) == -signal.SIGKILL, "the second watchdog watches"
    finally:
        end(process)


def test_the_watchdog_ends_with_its_process() -> None:
    process, dog = server()
    end(process)
    until(lambda: not is_running(dog))


def test_a_frozen_watchdog_stops_nothing() -> None:
    """It reads no more, and its pipe is full one day."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with os.fdopen(reading, "rb"), os.fdopen(writing, "wb", buffering=0) as pipe:
        while pipe.write(b"." * 4096):
            pass
        dog: Any = watchdog.Watchdog("plain")
        dog._process = SimpleNamespace(stdin=pipe)
        dog._beat()


@pytest.mark.parametrize(
    ("waits", "killed"),
    [
        (
            [[], [0], []] * 10,
            False,
        ),  # the first wait after a pause of the whole host, again and again
        ([[]] * (watchdog.CHECKS - 1) + [[0]] + [[]] * (watchdog.CHECKS - 1), False),
        ([[0]] + [[]] * watchdog.CHECKS, True),
    ],
)
def test_only_silence_without_a_break_ends_a_process(
    monkeypatch: pytest.MonkeyPatch, waits: list[list[int]], killed: bool
) -> None:
    each = iter(waits)
    kills: list[int] = []
    monkeypatch.setattr(select, "select", lambda *_: (next(each), [], []))
    monkeypatch.setattr(os, "read", lambda *_: b".")
    monkeypatch.setattr(os, "kill", lambda pid, _number: kills.append(pid))
    with pytest.raises(StopIteration):
        watchdog.watch(os.getppid(), 60.0, "plain")
    assert kills == [os.getppid()] * killed
