"""Long requests to a reference's process do not keep timers waiting
(workers/referee/processes/process_handle.py).
"""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.waiting import until
from workers.protocol import control_channel
from workers.protocol.control_channel import Command, ReplyCode
from workers.referee.host.device_lock import DeviceLock
from workers.referee.processes import process_handle as process_module
from workers.referee.processes.process_handle import ProcessHandle
from workers.sandbox.process_errors import TimedOut

LIMIT_S = 30.0


class SlowProcess:
    """A process that answers once it is told to, and notes its pauses."""

    def __init__(self) -> None:
        self.asked, self.over = threading.Event(), threading.Event()
        self.said: list[str] = []
        self.paused_s = 0.0
        self._sequence = 0

    def send(self, message: bytes, fds: tuple[int, ...] = ()) -> None:
        self._sequence = control_channel.REQUEST.unpack(message)[1]
        self.asked.set()

    def receive(self, size: int, timeout_s: float, *, spin_s: float = 0.0) -> bytes:
        if not self.over.wait(timeout_s):
            raise TimedOut
        return control_channel.REPLY.pack(ReplyCode.DONE, self._sequence, 7, 0)

    def thaw(self) -> None:
        pass

    def pause(self) -> None:
        self.said.append("pause")

    def resume(self) -> None:
        self.said.append("resume")

    def kill(self, **_: Any) -> None:
        pass


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "SLOW_S", 0.01)


@pytest.fixture
def lock(tmp_path: Path) -> DeviceLock:
    return DeviceLock(tmp_path, "gpu-0")


@pytest.fixture
def handle(lock: DeviceLock) -> Iterator[ProcessHandle]:
    found = ProcessHandle(SlowProcess(), torch.device("cpu"))  # type: ignore[arg-type]
    found.device_lock, found.sessions = lock, 1
    yield found
    found.close()


def _asking(lock: DeviceLock, handle: ProcessHandle, found: list[Any]) -> threading.Thread:
    """A thread that checks, and waits for the process meanwhile."""

    def ask() -> None:
        with lock.shared():
            found.append(handle.ask(Command.GENERATE, LIMIT_S))
            found.append(threading.get_ident() in lock._checking)

    thread = threading.Thread(target=ask)
    thread.start()
    assert handle.process.asked.wait(LIMIT_S)  # type: ignore[attr-defined]
    return thread


def test_a_timer_pauses_the_process_of_a_long_request(
    lock: DeviceLock, handle: ProcessHandle
) -> None:
    process: Any = handle.process
    found: list[Any] = []
    thread = _asking(lock, handle, found)
    with lock.exclusive():
        assert (process.said, found) == (["pause"], [])
    process.over.set()
    thread.join(LIMIT_S)
    assert process.said == ["pause", "resume"]
    assert found == [(7, 0), True]  # it checks again
    with lock.exclusive():
        assert process.said == ["pause", "resume"]


def test_an_answer_during_timing_is_used_after_it(lock: DeviceLock, handle: ProcessHandle) -> None:
    found: list[Any] = []
    thread = _asking(lock, handle, found)
    with lock.exclusive():
        handle.process.over.set()  # type: ignore[attr-defined]
        until(lambda: thread.ident in lock.uncharged._since)  # it has noticed the answer
        time.sleep(0.1)
        assert found == []
    thread.join(LIMIT_S)
    assert found == [(7, 0), True]
    assert lock.uncharged.waited_s(thread.ident) >= 0.1  # charged to no evaluation


def test_a_process_of_several_evaluations_is_waited_for(
    lock: DeviceLock, handle: ProcessHandle
) -> None:
    """A timer of the same problem may need the lock of the process, which the
    waiting thread holds.
    """
    handle.sessions = 2
    process: Any = handle.process
    thread = _asking(lock, handle, [])
    timed = threading.Event()

    def time_it() -> None:
        with lock.exclusive():
            timed.set()

    timer = threading.Thread(target=time_it)
    timer.start()
    assert not timed.wait(0.2)
    process.over.set()
    assert timed.wait(LIMIT_S)
    thread.join(LIMIT_S)
    timer.join(LIMIT_S)
    assert process.said == []


def test_a_second_evaluation_that_waits_for_the_process_ends_no_one(
    lock: DeviceLock, handle: ProcessHandle
) -> None:
    """The thread with the process's lock checks again although a timer waits, for a
    thread that waits for that lock.
    """
    thread = _asking(lock, handle, [])
    timed, second_has_it = threading.Event(), threading.Event()

    def share() -> None:
        with lock.shared(), handle.lock:
            second_has_it.set()

    def time_it() -> None:
        with lock.exclusive():
            timed.set()

    with lock.exclusive():  # the request is apart from here on
        handle.process.over.set()  # type: ignore[attr-defined]
    second = threading.Thread(target=share)
    second.start()
    timer = threading.Thread(target=time_it)
    timer.start()
    assert second_has_it.wait(LIMIT_S)
    assert timed.wait(LIMIT_S)
    for each in (thread, second, timer):
        each.join(LIMIT_S)


def test_a_request_that_gets_no_answer_ends_in_time(
    lock: DeviceLock, handle: ProcessHandle
) -> None:
    with lock.shared(), pytest.raises(TimedOut):
        handle.ask(Command.GENERATE, 0.05)
