"""Between a timed block's inputs and its clock: the device comes to rest, and the
candidate stands.
"""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.unit.two_sides import TwoSides, here
from workers.protocol.reference_work import ReferenceWork
from workers.referee.session import call_runner, idle_probe
from workers.referee.session.call_runner import CallRunner
from workers.referee.session.idle_probe import IDLE_US, RESTING_S
from workers.referee.session.warmed_calls import is_warmed


class Device(CallRunner):
    """Trials on a device that takes so long for each thing that it is asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *takes_s: float) -> None:
        left = list(takes_s)
        for module in (idle_probe, call_runner):
            monkeypatch.setattr(
                module, "synchronize", lambda device: time.sleep(left.pop(0) if left else 0)
            )
        self._device = torch.device("cpu")
        self.probe = idle_probe.IdleProbe(self._device)
        self.probe._flush = torch.zeros(1)
        self.looked: list[str] = []
        self.candidate, self.reference = self._seat("candidate"), self._seat("reference")

    def _seat(self, name: str) -> Any:
        return SimpleNamespace(
            process=SimpleNamespace(require_frozen=lambda: self.looked.append(name))
        )


def test_the_device_is_asked_until_it_answers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    busy_s = 10 * IDLE_US / 1e6
    device = Device(monkeypatch, 0.0, busy_s, busy_s)
    found = device._before(device.candidate)
    assert found is not None
    assert found >= 2 * busy_s * 1e9
    assert device.looked == ["candidate"]


def test_it_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(monkeypatch, *[0.002] * 1000)
    found = device._before(device.reference)
    assert found is not None
    assert RESTING_S <= found / 1e9 < 200 * RESTING_S
    assert device.looked == []


def test_without_a_device_the_candidate_stands_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = Device(monkeypatch)
    device.probe._flush = None
    assert device._before(device.candidate) is None
    assert device.looked == ["candidate"]


ADDS = """
import torch
class Model(torch.nn.Module):
    def forward(self, x, y): return CALL
def get_inputs(): return [torch.randn(8), torch.randn(8)]
"""


@pytest.mark.parametrize(("call", "rewritten"), [("x + y", False), ("y.add_(x) + 0", True)])
def test_a_warming_call_takes_the_inputs_of_an_earlier_one(
    tmp_path: Path, call: str, rewritten: bool
) -> None:
    """Slot 0 is written once, unless calls change their inputs: a write and a wait for it take
    0.2 ms of the time for which the device is held.
    """
    problem = ADDS.replace("CALL", call)
    with here():
        sides = TwoSides(tmp_path, problem, problem.replace("class Model(", "class ModelNew("))
        runner = sides.runner
        before = runner.candidate.requests
        runner.warm(runner.candidate)
        assert runner.candidate.requests == before + 1, "a hand-over"
        assert not runner.warmed  # no inputs are known yet
        runner._seen = torch.ones((1, runner.arena.inputs.slot_bytes), dtype=torch.uint8)
        for number, session in enumerate((runner.candidate, runner.reference, runner.candidate)):
            slot = session.region(runner.arena.inputs, 0, 1)
            other = torch.full_like(slot, 2)
            slot.copy_(other)
            runner.warm(session)
            assert torch.equal(slot, other) is (number == 2 and not rewritten)
    assert runner.warmed == 2


@pytest.mark.parametrize(
    ("call_s", "operators", "warmed"),
    [
        (0.0005, 1, True),
        (0.0035, 1, False),  # a large kernel
        (0.0035, 240, True),  # a network of small ones
        (0.03, 4000, False),  # too long to be made for nothing
    ],
)
def test_calls_of_which_launching_is_a_part_are_warmed(
    call_s: float, operators: int, warmed: bool
) -> None:
    work = ReferenceWork(
        products=(1,) * (operators // 4), rest_operators=operators - operators // 4
    )
    assert is_warmed(call_s, work) is warmed


def test_a_candidate_of_long_calls_is_not_warmed(tmp_path: Path) -> None:
    problem = ADDS.replace("CALL", "x + y")
    with here():
        sides = TwoSides(tmp_path, problem, problem.replace("class Model(", "class ModelNew("))
        runner = sides.runner
        runner.try_calls(runner.draw(1))
        assert runner._seen is not None
        runner.warm(runner.candidate)
        runner.quickest_s = 0.03
        runner.warm(runner.candidate)
    assert runner.warmed == 1
