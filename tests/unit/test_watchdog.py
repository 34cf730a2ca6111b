"""The process that ends a frozen server process, and no other."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from app import watchdog
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
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=root()
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def root() -> Path:
    return Path(watchdog.__file__).parents[1]


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


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
        until(lambda: not runs(dog))
    finally:
        end(process)


def test_a_process_that_does_not_do_its_work_is_killed() -> None:
    process, _ = server(well=False)
    try:
        assert process.wait(LIMIT_S) == -signal.SIGKILL
    finally:
        end(process)


def test_a_process_that_lives_is_left_alone_and_a_dead_watchdog_is_replaced() -> None:
    process, dog = server()
    try:
        os.kill(dog, signal.SIGKILL)
        until(lambda: not Path(f"/proc/{dog}").exists())
        time.sleep(3 * SILENT_S)
        assert process.poll() is None
        process.send_signal(signal.SIGSTOP)
        assert process.wait(LIMIT_S) == -signal.SIGKILL, "the second watchdog watches"
    finally:
        end(process)


def test_the_watchdog_ends_with_its_process() -> None:
    process, dog = server()
    end(process)
    until(lambda: not runs(dog))


def test_a_frozen_watchdog_stops_nothing() -> None:
    process, dog = server()
    try:
        os.kill(dog, signal.SIGSTOP)
        time.sleep(2 * SILENT_S)
        os.kill(dog, signal.SIGCONT)
        time.sleep(SILENT_S)
        assert process.poll() is None
    finally:
        end(process)


def test_a_pause_of_the_whole_host_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """One wait ends without a byte; the next finds the process alive again."""
    waits = iter([[], [0], []] * 10)
    kills: list[int] = []
    monkeypatch.setattr(select, "select", lambda *_: (next(waits), [], []))
    monkeypatch.setattr(os, "read", lambda *_: b".")
    monkeypatch.setattr(os, "kill", lambda pid, _number: kills.append(pid))
    with pytest.raises(StopIteration):
        watchdog.watch(os.getppid(), 60.0, "plain")
    assert kills == []
