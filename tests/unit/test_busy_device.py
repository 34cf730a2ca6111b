"""A device that other evaluations keep busy: timers stand aside, and a first call that does not end is ended."""

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
from workers.referee.session import call_runner
from workers.referee.session import process as process_module
from workers.referee.session.call_runner import CallRunner
from workers.referee.session.process import ProcessHandle
from workers.sandbox.process import TimedOut


class Busy:
    """A process whose host part takes `host_s` and whose device part `device_s`, by a clock of its own."""

    def __init__(self, host_s: float, device_s: float, *, says: bool = True) -> None:
        self.now = 0.0
        self._host_s, self._until, self._says = host_s, host_s + device_s, says
        self.handle: ProcessHandle | None = None

    def send(self, message: bytes, fds: tuple[int, ...] = ()) -> None:
        """The request is there at once."""

    def receive(self, size: int, timeout_s: float) -> bytes:
        assert self.handle is not None
        self.now = min(self.now + timeout_s, self._until)
        if self.now >= self._host_s and self._says:
            self.handle.mailbox[control_channel.QUEUED_AT] = 1
        if self.now < self._until:
            raise TimedOut
        return control_channel.REPLY.pack(ReplyCode.DONE, 1, 7, 0)

    def kill(self, **_: Any) -> None:
        """It has no process."""


@pytest.mark.parametrize(
    ("host_s", "device_s", "says", "ends_s"),
    [
        (60.0, 1.0, True, None),  # compiles for long, then computes
        (1.0, math.inf, True, 11.0),  # a kernel that does not end
        (1.0, 9.0, True, None),
        (1.0, math.inf, False, 90.0),  # the process does not say that it has launched everything
        (math.inf, 0.0, True, 90.0),
    ],
)
def test_a_first_call_has_long_to_compile_and_short_to_compute(
    host_s: float, device_s: float, says: bool, ends_s: float | None
) -> None:
    process = Busy(host_s, device_s, says=says)
    handle = ProcessHandle(process, torch.device("cpu"))  # type: ignore[arg-type]
    process.handle = handle
    handle.post(Command.RUN, 0, 0, 1, 0)
    if ends_s is None:
        assert handle.take_first(90.0, 10.0) == (7, 0)
    else:
        with pytest.raises(TimedOut):
            handle.take_first(90.0, 10.0)
        assert process.now == pytest.approx(ends_s, abs=2 * process_module.LOOK_S)
    handle.close()


class Lock:
    """A lock that counts how often it is held for timing, and how long timers stood aside."""

    def __init__(self) -> None:
        self.has_paused = True
        self.held = 0
        self.waited_s: list[float] = []
        self.is_held = False

    @contextmanager
    def exclusive(self, *used: object) -> Iterator[None]:
        self.held += 1
        self.is_held = True
        yield
        self.is_held = False

    def wait_for_those_apart(self, timeout_s: float) -> None:
        assert not self.is_held
        self.waited_s.append(timeout_s)


@pytest.mark.parametrize(("answers", "held", "asides"), [([True], 1, 0), ([False, False, True], 3, 2), ([], 4, 3)])
def test_timers_stand_aside_while_paused_processes_keep_the_device_busy(
    answers: list[bool], held: int, asides: int
) -> None:
    runner: Any = CallRunner.__new__(CallRunner)
    lock = runner.device_lock = Lock()
    runner.reference = runner.candidate = SimpleNamespace(process=None)
    left = list(answers)
    runner._probe = SimpleNamespace(is_idle=lambda at_once_us, within_s: left.pop(0) if left else False)
    with runner.exclusive():
        assert lock.is_held
    assert not lock.is_held
    assert (lock.held, lock.waited_s) == (held, [call_runner.APART_S] * asides)
