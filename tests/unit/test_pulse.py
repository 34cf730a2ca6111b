"""Pool processes that are frozen, and event loops that stand still: found by their
main process, and no others.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest
from celery.worker import state

from tests.waiting import until
from workers.worker import maintenance, pulse
from workers.worker.pulse import PulseCheck, Pulses


def silent(pulses: list[int], checked_at: list[float]) -> list[list[int]]:
    """Result of each check of process 7 with those pulses at those times."""
    found = iter(pulses)
    check = PulseCheck(lambda: {7: next(found)}, silent_s=60)
    return [check.silent([7], now_s) for now_s in checked_at]


def test_a_process_without_a_pulse_for_a_minute_is_silent() -> None:
    assert silent([1, 1, 1, 1, 1], [0, 20, 40, 59, 60]) == [[], [], [], [], [7]]


def test_a_process_with_a_pulse_in_between_is_not() -> None:
    assert silent([1, 1, 1, 2, 2, 2], [0, 20, 40, 59, 80, 118]) == [[]] * 6


def test_a_pause_of_the_whole_host_is_no_silence() -> None:
    assert silent([1, 1, 2], [0, 3600, 3605]) == [[]] * 3


def test_a_process_that_never_had_a_pulse_is_silent_too() -> None:
    check = PulseCheck(dict, silent_s=60)
    assert [check.silent([7], now_s) for now_s in (0, 20, 40, 61)] == [[], [], [], [7]]


def test_a_new_process_is_not_judged_by_its_forerunner() -> None:
    check = PulseCheck(lambda: {7: 1, 8: 1}, silent_s=60)
    for now_s in (0, 20, 40, 60):
        check.silent([7], now_s)
    assert check.silent([8], 61) == []
    assert check.silent([7, 8], 62) == []


def test_a_frozen_child_stops_beating(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse, "BEAT_S", 0.01)
    pulses = Pulses(2)
    pid = os.fork()
    if pid == 0:
        pulses.start(1)
        time.sleep(60)
        os._exit(0)
    try:
        until(lambda: pulses.read().get(pid, 0) >= 3)
        os.kill(pid, signal.SIGSTOP)
        os.waitpid(pid, os.WUNTRACED)
        before = pulses.read()[pid]
        time.sleep(0.1)
        assert pulses.read()[pid] == before
        os.kill(pid, signal.SIGCONT)
        until(lambda: pulses.read()[pid] > before)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


class Loop:
    """Celery's consumer with a loop that iterations on demand."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []

    def call_soon(self, act: Callable[[], None]) -> None:
        self.due.append(act)

    def turn(self) -> None:
        while self.due:
            self.due.pop()()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now_s = [0.0]
    monkeypatch.setattr(maintenance.time, "monotonic", lambda: now_s[0])  # type: ignore[attr-defined]
    return now_s


def test_an_event_loop_without_an_iteration_has_stopped(clock: list[float]) -> None:
    loop = Loop()
    iterations = maintenance.EventLoopIterations(loop)
    clock[0] = maintenance.STANDSTILL_S
    iterations.request()
    loop.turn()
    clock[0] += maintenance.STANDSTILL_S
    iterations.request()
    assert not iterations.have_stopped()
    clock[0] += 1
    assert iterations.have_stopped()
    loop.turn()
    assert not iterations.have_stopped()


@pytest.mark.parametrize("code", [0, 1])
def test_a_worker_that_shuts_down_has_no_blocked_loop(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    iterations = maintenance.EventLoopIterations(Loop())
    clock[0] = 2 * maintenance.STANDSTILL_S
    assert iterations.have_stopped()
    monkeypatch.setattr(state, "should_stop", code)
    assert not iterations.have_stopped()
