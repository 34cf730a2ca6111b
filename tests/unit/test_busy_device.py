"""A device that other evaluations keep busy: timers stand aside, and a first call
that does not end is ended.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from workers.protocol import control_channel
from workers.protocol.control_channel import Command, ReplyCode
from workers.referee.host.uncharged_time import UnchargedTime
from workers.referee.processes import process_handle as process_module
from workers.referee.processes.process_handle import ProcessHandle
from workers.referee.session import call_runner, first_calls
from workers.referee.session.call_runner import CallRunner
from workers.referee.session.fault_attribution import Fault, disturbed
from workers.sandbox.process_errors import TimedOut


class Busy:
    """A process with a host part of `host_s` and a device part of `device_s`, by a
    clock of its own.
    """

    def __init__(self, host_s: float, device_s: float, *, says: bool = True) -> None:
        self.now = 0.0
        self._host_s, self._until, self._says = host_s, host_s + device_s, says
        self.handle: ProcessHandle | None = None

    def send(self, message: bytes, fds: tuple[int, ...] = ()) -> None:
        """The request is there at once."""

    def receive(self, size: int, timeout_s: float, *, spin_s: float = 0.0) -> bytes:
        assert self.handle is not None
        self.now = min(self.now + timeout_s, self._until)
        if self.now >= self._host_s and self._says:
            self.handle.mailbox[control_channel.QUEUED_AT] = 1
        if self.now < self._until:
            raise TimedOut
        return control_channel.REPLY.pack(ReplyCode.DONE, 1, 7, 0)

    def kill(self, **_: Any) -> None:
        """It has no process."""


EVERY_10_S = [10, 20, 30, 40, 50, 60, 70, 80]


@pytest.mark.parametrize(
    ("host_s", "device_s", "says", "answers", "looks_s"),
    [
        (55.0, 1.0, True, True, EVERY_10_S[:5]),  # compiles for long, then computes
        (9.5, 3.0, True, True, []),  # compiles until shortly before the first look, then computes
        (1.0, 8.0, True, True, []),
        (
            1.0,
            math.inf,
            True,
            False,
            [11, 21, 31, 41, 51, 61, 71, 81],
        ),  # a kernel that does not end
        (1.0, math.inf, False, False, EVERY_10_S),  # it does not say that it has launched all
        (math.inf, 0.0, True, False, EVERY_10_S),
        (
            85.0,
            math.inf,
            True,
            False,
            EVERY_10_S,
        ),  # says so shortly before its whole limit, which ends it
    ],
)
def test_the_device_is_looked_at_10_s_after_everything_is_launched_and_until_then_every_10_s(
    host_s: float, device_s: float, says: bool, answers: bool, looks_s: list[float]
) -> None:
    process = Busy(host_s, device_s, says=says)
    handle = ProcessHandle(process, torch.device("cpu"))  # type: ignore[arg-type]
    process.handle = handle
    handle.post(Command.RUN, 0, 0, 1, 0)
    looked_s: list[float] = []
    if answers:
        assert handle.take_first(90.0, 10.0, lambda: looked_s.append(process.now)) == (7, 0)
    else:
        with pytest.raises(TimedOut) as caught:
            handle.take_first(90.0, 10.0, lambda: looked_s.append(process.now))
        assert process.now == 90.0
        assert not str(caught.value)  # looks alone say that the device was busy
    assert looked_s == pytest.approx(looks_s, abs=2 * process_module.LOOK_S)
    handle.close()


def test_what_a_look_finds_ends_the_wait() -> None:
    process = Busy(1.0, math.inf, says=False)
    handle = ProcessHandle(process, torch.device("cpu"))  # type: ignore[arg-type]
    process.handle = handle
    handle.post(Command.RUN, 0, 0, 1, 0)

    def look() -> None:
        raise disturbed()

    with pytest.raises(Fault):
        handle.take_first(90.0, 10.0, look)
    assert process.now == 10.0
    handle.close()


@pytest.mark.parametrize(
    ("answers", "ends"),
    [
        ([True], None),  # the device comes to rest: the call compiles
        (
            [False, False, False, True],
            None,
        ),  # so it does once the work that other calls had queued is done
        ([False] * 5 + [True], "timeout"),  # it comes to rest with the end of the candidate
        ([False] * 6, "disturbed"),  # the work was another's
    ],
)
def test_a_long_first_call_is_ended_if_the_device_is_busy_and_blamed_if_that_is_its_work(
    answers: list[bool], ends: str | None
) -> None:
    runner: Any = CallRunner.__new__(CallRunner)
    lock = runner.device_lock = Lock()
    kills: list[float] = []
    runner.candidate = SimpleNamespace(
        process=SimpleNamespace(kill=lambda wait_s: kills.append(wait_s))
    )
    left = list(answers)

    def is_idle(at_once_us: float, within_s: float) -> bool:
        assert lock.is_held
        return left.pop(0)

    runner.probe = SimpleNamespace(is_idle=is_idle)
    if ends is None:
        first_calls._end_if_device_is_busy(runner)
    else:
        with pytest.raises((TimedOut, Fault)) as caught:
            first_calls._end_if_device_is_busy(runner)
        assert isinstance(caught.value, TimedOut) == (ends == "timeout")
        assert str(caught.value) == (
            process_module.BUSY if ends == "timeout" else disturbed().error.message
        )
    assert (kills, left) == ([first_calls.ENDING_S] if ends else [], [])
    assert lock.pauses == min(
        answers.index(True) if True in answers else 5, 5
    )  # compiling looks idle, too
    assert not lock.is_held


class Lock:
    """A lock that counts how often it is held for timing, and how long timers stood aside."""

    def __init__(self) -> None:
        self.has_paused = True
        self.held = self.pauses = 0
        self.uncharged = UnchargedTime()
        self.waited_s: list[float] = []
        self.is_held = False

    @contextmanager
    def exclusive(self, *used: object) -> Iterator[None]:
        self.held += 1
        self.is_held = True
        try:
            yield
        finally:
            self.is_held = False

    def pause_all(self, *used: object) -> bool:
        assert self.is_held
        self.pauses += 1
        return True

    def wait_for_apart(self, timeout_s: float) -> None:
        assert not self.is_held
        self.waited_s.append(timeout_s)


@pytest.mark.parametrize(
    ("answers", "held", "asides"), [([True], 1, 0), ([False, False, True], 3, 2), ([], 4, 3)]
)
def test_timers_stand_aside_while_paused_processes_keep_the_device_busy(
    answers: list[bool], held: int, asides: int
) -> None:
    runner: Any = CallRunner.__new__(CallRunner)
    lock = runner.device_lock = Lock()
    runner.reference = runner.candidate = SimpleNamespace(process=None)
    left = list(answers)
    runner.probe = SimpleNamespace(
        is_idle=lambda at_once_us, within_s: left.pop(0) if left else False
    )
    with runner.exclusive():
        assert lock.is_held
    assert not lock.is_held
    assert (lock.held, lock.waited_s) == (held, [call_runner.APART_S] * asides)
