"""Libraries that lacked memory and went on, slower: their times are not used."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from workers.protocol.control_channel import Command
from workers.referee import shortages as refused
from workers.referee.host.uncharged_time import UnchargedTime
from workers.referee.session.fault_attribution import Fault
from workers.shims import shortages


class Allocator:
    """The device's allocator, made up: its statistics, and its observers."""

    def __init__(self) -> None:
        self.failed = self.looks = 0
        self.observers: list[Callable[..., None]] = []

    def fail(self, times: int) -> None:
        self.failed += times
        for _ in range(times):
            for observer in self.observers:
                observer(0, 1 << 30, 2, 3)

    def statistics(self, device: int) -> dict[str, int]:
        self.looks += 1
        return {"num_ooms": self.failed}


@pytest.fixture(params=[True, False], ids=["observed", "unobserved"])
def allocator(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Allocator:
    made_up = Allocator()
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(shortages, "_statistics", made_up.statistics)
    monkeypatch.setattr(shortages, "_attach", made_up.observers.append if request.param else None)
    monkeypatch.setattr(shortages, "_noted", shortages._Noted())
    monkeypatch.setattr(shortages, "_disregarded", 0)
    return made_up


def test_failures_in_work_that_is_never_timed_do_not_count(allocator: Allocator) -> None:
    allocator.fail(2)
    for _ in range(3):
        with shortages.disregarded():
            allocator.fail(5)
        allocator.fail(1)
    with suppress(MemoryError), shortages.disregarded():
        allocator.fail(1)
        raise MemoryError
    assert shortages.count() == 5


def test_statistics_are_read_once_where_failures_are_observed(allocator: Allocator) -> None:
    for _ in range(4):
        with shortages.disregarded():
            pass
    assert len(allocator.observers) <= 1
    assert allocator.looks == (1 if allocator.observers else 8)


def test_a_process_without_a_context_is_not_given_one(
    allocator: Allocator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work itself may begin the use of the device."""
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    with shortages.disregarded():
        assert not allocator.observers
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
        allocator.fail(3)
    assert shortages.count() == 0


def test_without_a_device_nothing_is_short() -> None:
    assert shortages.count() == 0


class Side:
    """A process that answers SHORTAGES."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.handle = object()

    def ask(self, command: Command, *_: Any) -> tuple[int, int]:
        assert command == Command.SHORTAGES
        return self.number, 0


def refuse(
    *, reference: int, candidate: int, shared: bool, left: int = 0
) -> tuple[Fault | None, list[object]]:
    """The fault of an evaluation with so many shortages, and the references that were discarded.
    `left`: bytes beyond the reference's need that a candidate with the device to itself has.
    """
    discarded: list[object] = []
    runner = SimpleNamespace(
        reference=Side(reference),
        candidate=Side(candidate),
        device_lock=SimpleNamespace(uncharged=UnchargedTime()),
        deadline=SimpleNamespace(allow=lambda: 1.0),
    )
    resources = SimpleNamespace(references=SimpleNamespace(discard=discarded.append))
    context: Any = SimpleNamespace(runner=runner, resources=resources, spec=None)
    progress: Any = SimpleNamespace(shares_memory=shared, available_bytes=left)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refused, "has_enough", lambda _, __, available_bytes: available_bytes > 0)
        try:
            refused.refuse(context, progress)
        except Fault as fault:
            return fault, discarded
    return None, discarded


@pytest.mark.parametrize("shared", [True, False])
def test_a_reference_that_was_short_serves_no_other_evaluation(shared: bool) -> None:
    fault, discarded = refuse(reference=1, candidate=0, shared=shared, left=1)
    assert fault is not None
    assert fault.out_of_memory  # among others it is repeated alone
    assert fault.status == "invalid"
    assert "the reference's process" in fault.error.message
    assert len(discarded) == 1


@pytest.mark.parametrize(
    ("candidate", "shared", "left", "refuses"),
    [(0, True, 0, False), (1, True, 1, True), (1, False, 0, True), (1, False, 1, False)],
)
def test_a_candidate_is_timed_as_it_is_if_it_had_enough_memory(
    candidate: int, shared: bool, left: int, refuses: bool
) -> None:
    fault, discarded = refuse(reference=0, candidate=candidate, shared=shared, left=left)
    assert (fault is not None) == refuses
    assert not discarded
