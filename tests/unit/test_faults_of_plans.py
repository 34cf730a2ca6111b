"""Errors while a plan of changed inputs is made: its other parts are kept, and the result names
the error.
"""

from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from workers.backends.support.time_limit import TimeLimit
from workers.protocol.input_variants import Variant
from workers.shims.problem import memory_estimate
from workers.shims.problem.input_slots import InputSlots
from workers.shims.problem.inputs import improving_changes, iterated_inputs, reaching_inputs
from workers.shims.problem.inputs.planned_inputs import Plan
from workers.shims.problem.observers import divisions, extremes, softmax_arguments
from workers.shims.problem.reference_problem import Problem

CPU = torch.device("cpu")


def plan() -> Plan:
    """That of a reference with a limit, a sort of sorted numbers and a maximum of positive ones."""
    torch.manual_seed(0)
    return reaching_inputs.plan(
        lambda x, y: x.clamp(max=50).sort(-1).values.cumsum(-1) + y.relu() + y.amax(-1, True),
        lambda: [torch.rand(64, 32).sort(-1).values, torch.rand(64, 32)],
        CPU,
    )


def fails(*_: object, **__: object) -> None:
    raise IndexError


@pytest.mark.parametrize("module", [divisions, extremes, softmax_arguments])
def test_an_observer_that_raises_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, module: Any
) -> None:
    whole = plan()
    assert all((whole.scaling, whole.unsorted, whole.signed, not whole.faults))
    name = {divisions: "divides", extremes: "are_shallow", softmax_arguments: "missed"}[module]
    monkeypatch.setattr(module, name, fails)
    partly = plan()
    assert partly == whole
    assert "IndexError at aten::clamp" in partly.faults


@pytest.mark.parametrize(
    ("module", "name", "part"),
    [
        (improving_changes, "signed", "signed"),
        (improving_changes, "unsorted", "unsorted"),
        (reaching_inputs, "_scaling", "scaling"),
        (iterated_inputs, "stretched", "iterated"),
    ],
)
def test_a_part_that_cannot_be_found_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, part: str
) -> None:
    whole = plan()
    monkeypatch.setattr(module, name, fails)
    found = plan()
    assert f"IndexError in {part}" in found.faults
    kept = [
        each.name for each in fields(Plan) if each.compare and each.name not in (part, "stretch")
    ]
    assert [getattr(found, each) for each in kept] == [getattr(whole, each) for each in kept]


def test_a_reference_that_cannot_be_watched_has_inputs_drawn_anew_all_the_same() -> None:
    def model(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        if torch.utils._python_dispatch._get_current_dispatch_mode() is not None:
            raise RuntimeError("no modes")
        return x[places]

    found = reaching_inputs.plan(model, lambda: [torch.randn(64, 8), torch.arange(0, 64, 2)], CPU)
    assert found.fixed == {1}
    assert "RuntimeError in limits" in found.faults


@pytest.mark.parametrize("mega", [300, 3000])
def test_inputs_that_are_too_large_are_named(monkeypatch: pytest.MonkeyPatch, mega: int) -> None:
    monkeypatch.setattr(memory_estimate, "tensor_bytes", lambda _: mega << 20)
    seen: list[Any] = []
    monkeypatch.setattr(improving_changes, "missed_by", seen.append)  # looks at every operator
    found = reaching_inputs.plan(lambda x: x @ x, lambda: [torch.rand(8, 8)], CPU)
    assert [f"{mega} MB" in each for each in found.faults] == [True]
    assert found.balanced == ({0} if mega == 300 else set())
    assert not seen


def test_faults_are_told_with_the_variants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slots = InputSlots(Problem(tmp_path, CPU))
    monkeypatch.setattr(reaching_inputs, "plan", fails)
    spec = SimpleNamespace(work=reaching_inputs.NO_WORK)
    session: Any = SimpleNamespace(model=None, spec=spec)
    wanted = 1 << Variant.SIGNED | 1 << Variant.NAMED
    assert slots.vary(session, 0, wanted, 1, b"") == (0, "planned: IndexError\n")
    assert slots.vary(session, 0, 0, 1, b"") == (0, "")


def test_parts_that_the_plans_time_does_not_allow_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reaching_inputs, "PLAN_S", 0.05)
    faults = reaching_inputs.Faults()

    def endless() -> int:
        x = torch.zeros(1)
        with TimeLimit(60.0):
            while True:
                x = x + 1

    assert faults.found("first", endless, 3) == 3
    assert faults.found("second", lambda: int(torch.ones(2).sum()), 5) == 5
    assert list(faults) == ["TimeoutError in first", "TimeoutError in second"]
