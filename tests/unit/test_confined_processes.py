"""Processes of a candidate are found, stopped and watched by processes that do not trust them."""

import fcntl
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app import process_stat
from workers.sandbox import (
    confined_process,
    proc,
    warden,
    zygote,
)
from workers.sandbox.confined_process import ConfinedProcess
from workers.sandbox.polling import readable
from workers.sandbox.process_errors import BrokenProtocolError, Ended, TimedOut

HELPER = """
import os, subprocess, sys, threading
ends = []
for line in sys.stdin:
    if line.startswith("child"):
        print(subprocess.Popen(["/bin/sleep", "60"]).pid, flush=True)
    elif line.startswith("thread"):
        ends.append(threading.Event())
        threading.Thread(target=ends[-1].wait, daemon=True).start()
        print(threading.active_count(), flush=True)
    else:
        ends.pop().set()
        while len(os.listdir("/proc/self/task")) > len(ends) + 1:
            pass
        print(threading.active_count(), flush=True)
"""


class Helper:
    """A process that starts and ends threads and starts processes when it is told to."""

    def __init__(self, stack: ExitStack) -> None:
        self.process = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", HELPER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        stack.callback(self.process.kill)
        self.pid = self.process.pid
        self.children: list[int] = []
        stack.callback(self._end_children)

    def _end_children(self) -> None:
        for child in self.children:
            os.kill(child, signal.SIGKILL)

    def do(self, what: str) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(what, file=self.process.stdin, flush=True)
        number = int(self.process.stdout.readline())
        self.children += [number] if what == "child" else []
        return number

    def stop(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        while any(
            _state(int(task.name)) != "T" for task in Path(f"/proc/{self.pid}/task").iterdir()
        ):
            pass

    def wake(self) -> None:
        os.kill(self.pid, signal.SIGCONT)


@pytest.fixture
def helper() -> Iterator[Helper]:
    with ExitStack() as stack:
        yield Helper(stack)


def _state(process: int) -> str:
    """State of a process or thread."""
    found = process_stat.fields(process)
    assert found is not None
    return found[process_stat.STATE]


def _open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_what_a_process_has_started_since_is_found_and_stopped(helper: Helper) -> None:
    """The stopwatch stops those that were there before the block; one that was
    started in it would work on.
    """
    process = object.__new__(ConfinedProcess)
    process._end, process._all_stopped = None, False
    process._pid, process._threads = helper.pid, None
    process._frozen = [helper.pid]
    child = helper.do("child")
    assert process.freeze() is True
    assert [_state(each) for each in (helper.pid, child)] == ["T", "T"]
    assert process.freeze() is False
    for _ in range(2):  # blocks in which it starts nothing, and then one more in which it does
        process._all_stopped = False
        assert process.freeze() is False
    helper.wake()
    child, process._all_stopped = helper.do("child"), False
    assert process.freeze() is True
    assert [_state(each) for each in (helper.pid, child)] == ["T", "T"]
    process.thaw()
    helper.do("thread")
    assert process.freeze() is False, "a process started while no benchmark ran is no news"
    process.thaw()


@pytest.fixture
def confined(helper: Helper) -> Iterator[tuple[ConfinedProcess, socket.socket]]:
    """The helper as if it were in the sandbox, and the warden's end of its notes."""
    process = object.__new__(ConfinedProcess)
    process._notes, warden_s = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process._end, process._all_stopped = None, False
    process._pid, process._threads, process._frozen = helper.pid, None, []
    with process._notes, warden_s:
        yield process, warden_s


def test_a_pause_stops_the_process_and_is_no_time_of_its_answer(
    helper: Helper, confined: tuple[ConfinedProcess, socket.socket]
) -> None:
    process, _ = confined
    process._paused_at, process._paused_s, process.output = None, 0.0, b""
    process._channel, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process._stdout, output = os.pipe()
    process._channel.setblocking(False)
    answers: list[object] = []

    def wait_for_it() -> None:
        try:
            answers.append(process.receive(2, 0.5))
        except TimedOut:
            answers.append(TimedOut)

    waiting = threading.Thread(target=wait_for_it)
    try:
        waiting.start()
        time.sleep(0.1)
        process.pause()
        assert _state(helper.pid) == "T"
        waiting.join(timeout=0.8)
        assert not answers, "a pause was counted"
        process.resume()
        assert _state(helper.pid) != "T"
        assert process.paused_s >= 0.8
        other.send(b"ok")
        waiting.join(timeout=10)
        assert answers == [b"ok"]
        wait_for_it()
        assert answers == [b"ok", TimedOut]
    finally:
        process._channel.close()
        other.close()
        os.close(process._stdout)
        os.close(output)


def test_a_process_that_runs_while_frozen_is_noticed(
    helper: Helper, confined: tuple[ConfinedProcess, socket.socket]
) -> None:
    process, _ = confined
    with pytest.raises(RuntimeError, match="the process is not frozen"):
        process.require_frozen()
    helper.do("thread")
    child = helper.do("child")
    for pid in (helper.pid, child):
        process.freeze()
        process.require_frozen()
        os.kill(pid, signal.SIGCONT)
        assert process.freeze() is False, "it remembers that everything stood"
        with pytest.raises(BrokenProtocolError, match="ran while it was stopped"):
            process.require_frozen()
        process.thaw()
    process.freeze()
    process.require_frozen()
    process.thaw()


def test_a_process_woken_by_another_is_stopped_again(
    helper: Helper, confined: tuple[ConfinedProcess, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    process, _ = confined
    child = helper.do("child")
    looked_at: list[int] = []
    is_stopped = proc.is_stopped

    def look(pid: int) -> bool:
        stands = is_stopped(pid)
        looked_at.extend([pid] if stands else [])
        if len(looked_at) == 1:
            helper.wake()  # the child may have done so as its last act
        return stands

    monkeypatch.setattr(proc, "is_stopped", look)
    process.freeze()
    assert [_state(each) for each in (helper.pid, child)] == ["T", "T"]
    assert len(looked_at) > 1
    process.require_frozen()


@pytest.mark.parametrize(
    ("looking_s", "slept"), [(60.0, []), (0.0, [confined_process.PAUSE_S] * 2)]
)
def test_a_process_that_stops_in_a_moment_is_not_slept_for(
    confined: tuple[ConfinedProcess, socket.socket],
    monkeypatch: pytest.MonkeyPatch,
    looking_s: float,
    slept: list[float],
) -> None:
    process, _ = confined
    looks = iter([False, False, True])
    pauses: list[float] = []
    monkeypatch.setattr(confined_process, "LOOKING_S", looking_s)
    monkeypatch.setattr(ConfinedProcess, "_is_stopped", lambda *_: next(looks))
    monkeypatch.setattr(
        confined_process,
        "time",
        SimpleNamespace(monotonic=time.monotonic, sleep=pauses.append),
    )
    process.freeze()
    assert pauses == slept


def test_a_process_killed_while_frozen_has_ended(
    helper: Helper, confined: tuple[ConfinedProcess, socket.socket]
) -> None:
    process, warden_s = confined
    process.freeze()
    helper.wake()
    warden_s.send(warden.NOTE.pack(warden.NOTE_ENDED, signal.SIGKILL) + warden.OUT_OF_MEMORY)
    with pytest.raises(Ended, match="all memory allowed"):
        process.require_frozen()
    process.require_frozen()


def test_a_process_that_has_ended_says_so_whenever_it_is_asked(
    confined: tuple[ConfinedProcess, socket.socket],
) -> None:
    process, warden_s = confined
    warden_s.send(warden.NOTE.pack(warden.NOTE_ENDED, signal.SIGSEGV))
    warden_s.close()
    for ask in (process._take_note, process._take_note, process._take_notes):
        with pytest.raises(Ended, match="SIGSEGV"):
            ask()
    assert not process.is_running


@pytest.mark.parametrize("kept", [0, 3, proc.KEPT_FILES])
def test_threads_that_came_or_went_since_are_noticed(helper: Helper, kept: int) -> None:
    open_before = _open_files()
    seen = proc.Threads(helper.pid, kept)
    helper.do("thread")
    assert not seen.is_stopped()
    helper.stop()
    assert seen.is_stopped()
    assert seen.children() == []
    for change in ("thread", "end", "child"):
        helper.wake()
        helper.do(change)
        assert not seen.is_stopped(), "somebody runs"
        helper.stop()
        assert seen.is_stopped() is (change == "child"), "not all that are there are known"
        assert seen.is_stopped()
        assert seen.children() == helper.children
    assert _open_files() == open_before + min(kept, 4)
    seen.close()
    assert _open_files() == open_before


def test_a_process_that_is_gone_stands_still_and_has_no_children(helper: Helper) -> None:
    seen = proc.Threads(helper.pid, proc.KEPT_FILES)
    helper.do("thread")
    helper.stop()
    assert seen.is_stopped()
    helper.process.kill()
    helper.process.wait()
    assert [seen.is_stopped(), seen.is_stopped()] == [False, True]
    assert proc.tree(seen) == [helper.pid]


def test_files_of_all_processes_together_are_kept_open_only_so_far(
    helper: Helper, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper.do("thread")
    helper.stop()
    monkeypatch.setattr(proc, "KEPT_IN_ALL", proc._open_files + 3)
    before = _open_files()
    first, second = (proc.Threads(helper.pid, proc.KEPT_FILES) for _ in range(2))
    assert [first.is_stopped(), second.is_stopped(), first.is_stopped(), second.is_stopped()] == [
        True
    ] * 4
    assert _open_files() == before + 3
    first.close()
    assert second.is_stopped()
    second.close()
    assert _open_files() == before


def test_what_roles_prepare_is_put_into_the_cache_of_each_fork(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def build() -> None:
        place = Path(os.environ["TRITON_CACHE_DIR"]) / "key"
        place.mkdir()
        (place / "stub.so").write_bytes(b"library")
        (place / "notes.json").write_text("of no use elsewhere")

    def fail() -> None:
        raise RuntimeError("no compiler here")

    before = dict(os.environ)
    modules: list[Any] = [
        SimpleNamespace(prepare=fail),
        SimpleNamespace(),
        SimpleNamespace(prepare=build),
    ]
    libraries = zygote._prepare(modules)
    assert libraries == {"key/stub.so": b"library"}
    assert dict(os.environ) == before
    assert "no compiler here" in capsys.readouterr().err
    found: list[bytes] = []
    ours, theirs = socket.socketpair()
    with ours, theirs:
        zygote._serve(
            lambda _, cache: found.append((cache / "key/stub.so").read_bytes()),
            libraries,
            theirs,
            tmp_path,
        )
    assert found == [b"library"]


def test_descriptors_beyond_those_of_select_are_waited_for() -> None:
    """select(2) raises ValueError from 1024 on, which a worker that lives for weeks reaches."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 1200:
        pytest.skip("this host allows no descriptor from 1024 on")
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        near, far = socket.socketpair()
        with (
            near,
            far,
            socket.socket(fileno=fcntl.fcntl(near.fileno(), fcntl.F_DUPFD, 1100)) as high,
        ):
            assert readable(high) == []
            far.send(b"x")
            assert readable(high, timeout_s=1.0) == [high]
            far.close()
            assert readable(high, near) == [high, near]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
