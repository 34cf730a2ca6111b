"""Device memory for several evaluations at once, and a second try for those that ran out of it among others."""

import threading
import uuid
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from app.domain.evaluation import Status
from app.domain.job import Job
from workers import spec
from workers.referee import evaluate
from workers.referee.cancel import Cancellation
from workers.referee.device import open_device
from workers.referee.faults import Fault, invalid
from workers.referee.record import CHECK_BYTES
from workers.referee.room import OVERTAKINGS, Room, needs

GO_S = 10.0
HOST: Any = SimpleNamespace(room=Room(100))
JOB = Job(job_id=uuid.uuid4(), reference=b"", candidate=b"", backend="torch")


class Guest(threading.Thread):
    """Holds room from the moment that it is let in until it is told to go."""

    def __init__(self, room: Room, need: int) -> None:
        super().__init__(daemon=True)
        self.entered, self.go, self.cancellation = threading.Event(), threading.Event(), Cancellation()
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


def test_who_fits_is_let_in_and_who_does_not_waits() -> None:
    room = Room(100)
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
    room = Room(100)
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


def test_each_who_waits_is_overtaken_a_few_times_only() -> None:
    room = Room(100)
    holder = Guest(room, 60)
    assert holder.entered.wait(GO_S)
    first = Guest(room, 50)
    assert not first.entered.wait(0.1)
    ahead = Guest(room, 1)  # overtakes the first only
    assert ahead.entered.wait(GO_S)
    second = Guest(room, 45)
    assert not second.entered.wait(0.1)
    for _ in range(OVERTAKINGS - 1):  # both
        small = Guest(room, 1)
        assert small.entered.wait(GO_S)
        small.leave()
    small = Guest(room, 1)
    assert not small.entered.wait(0.3)
    first.cancellation.ask()
    assert first.entered.wait(GO_S)  # and takes nothing
    assert small.entered.wait(GO_S)  # the second has been overtaken once less
    for each in (small, first, ahead, holder):
        each.leave()
    assert second.entered.wait(GO_S)
    second.leave()


def test_who_is_cancelled_does_not_wait_and_takes_nothing() -> None:
    room = Room(100)
    holder, waiting = Guest(room, 100), Guest(room, 100)
    assert not waiting.entered.wait(0.3) or not holder.entered.wait(0.3)
    late = waiting if holder.entered.is_set() else holder
    late.cancellation.ask()
    assert late.entered.wait(GO_S)
    late.leave()
    (holder if late is waiting else waiting).leave()
    with ExitStack() as stack:
        assert stack.enter_context(room.hold(100, Cancellation())) is False


def test_without_a_total_nobody_waits() -> None:
    room = Room(None)
    with room.hold(1 << 60, Cancellation()) as one, room.hold(1 << 60, Cancellation()) as other:
        assert (one, other) == (False, False)


def agreed(elements: int) -> spec.Spec:
    tensor: dict[str, Any] = {"kind": "tensor", "shape": [elements], "dtype": "float32", "stride": None}
    return spec.Spec(
        inputs={"kind": "list", "items": [tensor]}, outputs=tensor, init={"kind": "list", "items": []}, parameters={},
        training=False, truth="fp64", mutated_inputs=(), output_constant=False,
    )  # fmt: skip


def test_what_is_needed_grows_with_the_problem_and_covers_what_is_known() -> None:
    small, large = agreed(1 << 20), agreed(1 << 28)
    needed = [needs(each, spec.arena(each, 2), 2 << 30, 512 << 20) for each in (small, large)]
    place = spec.arena(large, 2)
    known = place.reference_bytes + place.candidate_bytes + 2 * 2 * large.slot_bytes
    assert needed[0] < 4 << 30
    assert known < needed[1] < 80 << 30


def test_problems_of_64_mb_to_1_gb_fit_on_a_gpu_of_139_gib_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Properties:
        total_memory = 139 << 30

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: Properties)
    device = open_device("h200", 0, 8)
    total = 0
    for elements in (1 << 24, 1 << 26, 1 << 27, 1 << 28):
        problem = agreed(elements)
        slots = max(2, device.arena_bytes // problem.slot_bytes)
        total += needs(problem, spec.arena(problem, slots), device.round_bytes, CHECK_BYTES)
    assert device.room_bytes is not None
    assert 0.8 * device.room_bytes < total < device.room_bytes


@pytest.mark.parametrize(
    ("among_others", "ends", "tries"),
    [
        (True, Fault(Status.OUT_OF_MEMORY, "out_of_memory", "no memory", starved=True), [False, True]),
        (True, invalid("reference_failed", "no memory", starved=True), [False, True]),
        (True, torch.OutOfMemoryError("no memory"), [False, True]),
        (False, Fault(Status.OUT_OF_MEMORY, "out_of_memory", "no memory", starved=True), [False]),
        (True, Fault(Status.CRASHED, "crashed", "signal 11"), [False]),
    ],
)
def test_who_ran_out_of_memory_among_others_tries_again_alone(
    monkeypatch: pytest.MonkeyPatch, among_others: bool, ends: Exception, tries: list[bool]
) -> None:
    seen: list[bool] = []

    def measure(job: object, host: object, progress: evaluate.Progress, *, alone: bool) -> None:
        seen.append(alone)
        progress.among_others = among_others and not alone
        if not alone:
            raise ends

    class Concluded:
        timing = None

    monkeypatch.setattr(evaluate, "_measure", measure)
    monkeypatch.setattr(evaluate, "_conclude", lambda host, progress, fault: Concluded())
    evaluate.evaluate(JOB, HOST)
    assert seen == tries


def test_our_own_lack_of_memory_is_our_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(job: object, host: object, progress: evaluate.Progress, *, alone: bool) -> None:
        progress.among_others = not alone
        raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(evaluate, "_measure", measure)
    with pytest.raises(torch.OutOfMemoryError):
        evaluate.evaluate(JOB, HOST)
