"""Admission of several evaluations by device memory."""

import threading
import time
import uuid
from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from app.domain.job import Job
from workers.referee.cancellation import Cancellation
from workers.referee.host import memory_budget as room_module
from workers.referee.host.device import open_device
from workers.referee.host.memory_budget import OVERTAKINGS, MemoryBudget, NoRoomError, Turn

GO_S = 10.0
HOST: Any = SimpleNamespace(memory_budget=MemoryBudget(100))
JOB = Job(job_id=uuid.uuid4(), reference=b"", candidate=b"", backend="torch")


class Guest(threading.Thread):
    """Holds room from the moment that it is let in until it is told to go."""

    def __init__(self, room: MemoryBudget, need: int) -> None:
        super().__init__(daemon=True)
        self.entered, self.go, self.cancellation = (
            threading.Event(),
            threading.Event(),
            Cancellation(),
        )
        self.among_others: bool | None = None
        self._room, self._need = room, need
        self.start()

    def run(self) -> None:
        with self._room.hold(self._need, self.cancellation) as self.among_others:
            self.entered.set()
            self.go.wait(GO_S)

    def leave(self) -> None:
        self.go.set()
        self.join(GO_S)


def test_an_evaluation_that_fits_is_admitted_and_one_that_does_not_waits() -> None:
    room = MemoryBudget(100)
    first, second = Guest(room, 60), Guest(room, 40)
    assert first.entered.wait(GO_S)
    assert second.entered.wait(GO_S)
    third = Guest(room, 50)
    assert not third.entered.wait(0.3)
    second.leave()
    assert not third.entered.wait(0.3)
    first.leave()
    assert third.entered.wait(GO_S)
    assert third.among_others is True
    third.leave()


def test_a_few_small_ones_overtake_a_large_one_and_then_everybody_waits_for_it() -> None:
    room = MemoryBudget(100)
    holder = Guest(room, 10)
    assert holder.entered.wait(GO_S)
    large = Guest(room, 1_000)
    assert not large.entered.wait(0.3)
    for _ in range(OVERTAKINGS):
        small = Guest(room, 1)
        assert small.entered.wait(GO_S)
        small.leave()
    small = Guest(room, 1)
    assert not small.entered.wait(0.3)  # it would fit, but too many have gone before
    holder.leave()
    assert large.entered.wait(GO_S)
    assert large.among_others is False
    assert not small.entered.wait(0.3)
    large.leave()
    assert small.entered.wait(GO_S)
    small.leave()


def test_any_number_goes_before_a_large_one_beside_which_it_fits() -> None:
    room = MemoryBudget(100)
    holder = Guest(room, 60)
    assert holder.entered.wait(GO_S)
    large = Guest(room, 90)
    assert not large.entered.wait(0.1)
    for _ in range(3 * OVERTAKINGS):
        small = Guest(room, 10)
        assert small.entered.wait(GO_S)
        small.leave()
    beside = Guest(room, 10)
    assert beside.entered.wait(GO_S)
    holder.leave()
    assert large.entered.wait(GO_S)  # without a wait for the one that is there still
    for each in (beside, large):
        each.leave()


def test_a_waiting_evaluation_is_overtaken_a_few_times_only() -> None:
    room = MemoryBudget(100)
    holder = Guest(room, 60)
    assert holder.entered.wait(GO_S)
    first = Guest(room, 100)
    assert not first.entered.wait(0.1)
    ahead = Guest(room, 1)  # overtakes the first only
    assert ahead.entered.wait(GO_S)
    second = Guest(room, 100)
    assert not second.entered.wait(0.1)
    for _ in range(OVERTAKINGS - 1):  # both
        small = Guest(room, 1)
        assert small.entered.wait(GO_S)
        small.leave()
    small = Guest(room, 1)
    assert not small.entered.wait(0.3)
    first.cancellation.request()
    assert first.entered.wait(GO_S)  # and takes nothing
    assert small.entered.wait(GO_S)  # the second has been overtaken once less
    for each in (small, first, ahead, holder):
        each.leave()
    assert second.entered.wait(GO_S)
    second.leave()


def test_a_cancelled_evaluation_does_not_wait_and_takes_nothing() -> None:
    room = MemoryBudget(100)
    holder, waiting = Guest(room, 100), Guest(room, 100)
    assert not waiting.entered.wait(0.3) or not holder.entered.wait(0.3)
    late = waiting if holder.entered.is_set() else holder
    late.cancellation.request()
    assert late.entered.wait(GO_S)
    late.leave()
    (holder if late is waiting else waiting).leave()
    with ExitStack() as stack:
        assert stack.enter_context(room.hold(100, Cancellation())) is False


def test_without_a_total_no_evaluation_waits() -> None:
    room = MemoryBudget(None)
    with room.hold(1 << 60, Cancellation()) as one, room.hold(1 << 60, Cancellation()) as other:
        assert (one, other) == (False, False)


def test_memory_of_idle_processes_is_given_back_before_an_evaluation_waits() -> None:
    free, given_back = [10], []

    def give_back() -> None:
        given_back.append(True)
        free[0] = 80

    room = MemoryBudget(100, lambda: free[0], give_back)
    with room.hold(50, Cancellation()) as among_others:
        assert among_others
    assert given_back == [True]


def test_an_evaluation_with_the_device_to_itself_ends_idle_processes_whatever_is_free() -> None:
    given_back: list[bool] = []
    room = MemoryBudget(100, lambda: 1000, lambda: given_back.append(True))
    with room.hold(50, Cancellation()):
        assert not given_back
    with room.hold(100, Cancellation()):
        assert given_back


def test_idle_processes_are_ended_where_evaluations_leave_little() -> None:
    """The contexts of idle references were in no reckoning: evaluations that took what they had
    reserved ran out of memory, and one by one were repeated with the device to themselves.
    """
    given_back: list[bool] = []
    room = MemoryBudget(100, lambda: 1000, lambda: given_back.append(True), slack_bytes=20)
    with room.hold(60, Cancellation()), room.hold(20, Cancellation()):
        assert not given_back  # 20 are left
        with room.hold(1, Cancellation()):
            assert given_back == [True]


def test_memory_that_the_referee_caches_is_not_free_for_processes() -> None:
    """It is released first, since ended references take seconds to start again."""
    free, done = [40], []

    def release_cache() -> None:
        done.append("cache")
        free[0] = max(free[0], 60)

    def give_back() -> None:
        done.append("references")
        free[0] = max(free[0], 80)

    room = MemoryBudget(100, lambda: free[0], give_back, release_cache=release_cache)
    for need, steps in (
        (40, []),
        (50, ["cache"]),
        (70, ["cache", "references"]),
        (100, ["cache", "references"]),
    ):
        free[0] = 100 if need == 100 else 40
        done.clear()
        with room.hold(need, Cancellation()):
            assert done == steps


def test_free_memory_of_a_gpu_is_without_the_referees_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A cache of 8 GB admitted evaluations with processes that lacked as much."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (40, 100))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 30)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 10)
    gpu = replace(open_device("cpu", 0, 1), torch_device=torch.device("cuda", 0))
    assert gpu.free_bytes() == 40


def test_memory_that_an_evaluation_has_already_need_not_be_free() -> None:
    room = MemoryBudget(100, lambda: 30)
    with room.hold(60, Cancellation(), 30) as among_others:
        assert among_others
    with room.hold(60, Cancellation(), 90):
        pass  # an estimate of its memory may be too high


def test_memory_that_other_evaluations_have_is_not_that_of_other_programs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Memory that one of them had may be in use for a moment after it; no other
    program has had any for long.
    """
    now = [0.0]
    monkeypatch.setattr(room_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    free = [10]
    room = MemoryBudget(100, lambda: free[0])
    waiting = Turn(50)
    assert not room._is_there(waiting)  # the remains of an evaluation that has just ended
    with room.hold(10, Cancellation()):  # another one goes first, for two minutes
        now[0] += 120.0
        assert not room._is_there(waiting)
    assert not room._is_there(waiting)  # its remains
    free[0] = 50
    assert room._is_there(waiting)


def test_an_evaluation_waits_for_memory_that_other_programs_have_and_then_gives_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room_module, "FOREIGN_S", 0.3)
    room = MemoryBudget(100, lambda: 40)
    with room.hold(30, Cancellation()):
        pass
    with pytest.raises(
        NoRoomError, match="expected 50 bytes of device memory, other programs leave 40"
    ):
        room.hold(50, Cancellation()).__enter__()
    with room.hold(
        100, Cancellation()
    ) as among_others:  # alone it makes do with the memory there is
        assert not among_others


def test_memory_of_waiting_evaluations_references_is_no_other_programs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """None of them leaves before it has had its turn: waiting for them would never end."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    room, turn = MemoryBudget(100, lambda: 60), Turn(70)
    room._queue.extend([turn, Turn(80, resident=15)])
    assert not room._is_there(turn)
    now[0] += room_module.SETTLING_S + 0.1
    assert room._is_there(turn)
    room._queue.pop()
    assert not room._is_there(turn)
    now[0] += room_module.FOREIGN_S
    with pytest.raises(NoRoomError):
        room._is_there(turn)
