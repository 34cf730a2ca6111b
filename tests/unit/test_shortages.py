"""Libraries that lacked memory and went on, slower: their times are not used."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from workers.protocol.control_channel import Command
from workers.referee import shortages as refused
from workers.referee.host.uncharged_time import UnchargedTime
from workers.referee.session.fault_attribution import Fault
from workers.shims import shortages


@pytest.fixture
def failures(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The device's statistics, made up."""
    numbers = {"num_ooms": 0}
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(shortages, "_statistics", lambda _: numbers)
    monkeypatch.setattr(shortages, "_disregarded", 0)
    return numbers


def test_failures_in_work_that_is_never_timed_do_not_count(failures: dict[str, int]) -> None:
    failures["num_ooms"] = 2
    with shortages.disregarded():
        failures["num_ooms"] += 5
    failures["num_ooms"] += 1
    assert shortages.count() == 3


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
