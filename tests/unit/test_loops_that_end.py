"""References with loops that end by themselves, once a number that Python reads is small enough."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.unit.two_sides import TwoSides, here
from workers.protocol.input_variants import Variant
from workers.shims.problem import input_slots
from workers.shims.problem.inputs import improving_changes, reaching_inputs, telling_inputs
from workers.shims.problem.inputs.iterated_inputs import Iterations

ENDLESS = """
import torch
from torch import nn
class {name}(nn.Module):
    def forward(self, x):
        change = x
        while float(change.abs().max()) > 1e-5: change = change * x
        return change
def get_inputs(): return [torch.rand(40) - 0.5]
"""


def _roots(x: torch.Tensor) -> torch.Tensor:
    root = x
    for _ in range(50):
        root = (root + x / root) / 2
        if float((root * root - x).abs().max()) <= 1e-5 * float(x.max()):
            break
    return root


def _once(x: torch.Tensor) -> torch.Tensor:
    return x / x.max().item()


def _endless(x: torch.Tensor) -> torch.Tensor:
    while float(x.max()) > 1:
        x = x * 1.0
    return x


def test_inputs_are_found_on_which_a_loop_ends_later() -> None:
    torch.manual_seed(0)
    plan = reaching_inputs.plan(_roots, lambda: [torch.rand(500) + 0.5], torch.device("cpu"))
    assert Variant.TELLING in plan.all_kinds
    assert "far 128" in plan.telling


@pytest.mark.parametrize(("model", "may_stop"), [(_roots, True), (_once, False)])
def test_loops_are_known_by_what_they_read(model: Any, *, may_stop: bool) -> None:
    x = torch.rand(50) + 0.5
    with Iterations(model, [x]) as iterations:
        model(x)
    assert iterations.may_stop == may_stop


def test_loops_that_never_end_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(improving_changes, "LIMIT_S", 0.1)
    with pytest.raises(TimeoutError):
        improving_changes.reaches(_endless, [torch.full((4,), 2.0)], lambda _: True)
    monkeypatch.setattr(telling_inputs, "LONGER_S", 0.1)
    assert telling_inputs.find_longer(_endless, [torch.ones(4)]) == ()


def test_changed_inputs_on_which_a_reference_does_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_slots, "ENDLESS_S", 0.1)
    with here():
        problem, candidate = (ENDLESS.format(name=each) for each in ("Model", "ModelNew"))
        sides = TwoSides(tmp_path, problem, candidate)
        assert sides.runner.draw_unusual((Variant.SCALED,)) is None
    assert any("TimeoutError" in each for each in sides.runner.record.excused)
