"""Calls of a reference that no observer needs to see, when its plan is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from workers.shims.problem.inputs import improving_changes, reaching_inputs
from workers.shims.problem.inputs.planned_inputs import Plan
from workers.shims.problem.observers.reference_limits import Limits


class Counted:
    """A model that notes whether its calls are watched."""

    def __init__(self, compute: Callable[..., Any]) -> None:
        self._compute = compute
        self.watched, self.unwatched = 0, 0

    def __call__(self, *inputs: Any) -> Any:
        is_watched = bool(_get_current_dispatch_mode_stack())
        self.watched, self.unwatched = self.watched + is_watched, self.unwatched + (not is_watched)
        return self._compute(*inputs)


def _planned(model: Any, *shapes: tuple[int, ...]) -> Plan:
    torch.manual_seed(0)
    return reaching_inputs.plan(
        model, lambda: [torch.randn(shape) for shape in shapes], torch.device("cpu")
    )


def _shares(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    for _ in range(40):
        x = (x @ y) / (1 + (x @ y).abs().sum(dim=-1, keepdim=True))
    return x


def test_a_loop_without_limits_is_watched_once() -> None:
    model = Counted(_shares)
    assert _planned(model, (8, 8), (8, 8)).emptied == {0, 1}
    assert model.watched == 1


@pytest.mark.parametrize(
    "compute",
    [
        lambda x, y: (x / x.abs().sum() + y).long().float() @ (y / y.norm()),
        lambda x, y: (x @ y) / y.norm() if float(x[0, 0]) < 9 else (x / 0).long(),
        lambda x, y: (x / y.norm()) @ y if x.isnan().any() else x @ y / (1 + y.norm()),
    ],
)
def test_calls_that_may_make_integers_of_nothing_are_watched(
    compute: Callable[..., Any],
) -> None:
    model = Counted(compute)
    with Limits() as missed, torch.no_grad():
        compute(torch.randn(8, 8), torch.randn(8, 8))
    assert missed.may_invent
    before = model.watched
    assert improving_changes.is_finite_on(model, [torch.rand(8, 8), torch.rand(8, 8)], missed)
    assert model.watched == before + 1


def test_an_integer_made_of_nothing_is_no_finite_answer() -> None:
    def compute(x: torch.Tensor) -> torch.Tensor:
        return (x / x.norm()).long()

    x = torch.randn(8, 8)
    with Limits([x]) as missed:
        compute(x)
    assert improving_changes.is_finite_on(compute, [x], missed)
    assert not improving_changes.is_finite_on(compute, [torch.zeros(8, 8)], missed)
    assert not improving_changes.is_finite_on(compute, [torch.zeros(8, 8)], Limits.unknown([x]))


def test_zeros_are_tried_where_single_numbers_decide() -> None:
    x = torch.randn(8, 8)
    for compute, decides in (
        (lambda x: x / x.norm(), False),
        (lambda x: x / x.norm().clamp(min=1e-3), True),
        (lambda x: torch.where(x.norm() > 1e-3, x / x.norm(), x), True),
        (lambda x: x.clamp(min=1e-3), False),
    ):
        with Limits([x]) as missed:
            compute(x)
        assert missed.decides == decides
        model = Counted(compute)
        assert bool(improving_changes.zeroed(model, [x], missed)) == decides
        assert bool(model.watched) == decides
        assert improving_changes.zeroed(compute, [x], Limits.unknown([x])) == (
            {0} if decides else set()
        )


def test_traits_are_loosened_where_an_operator_restores_them() -> None:
    x, rows = torch.randn(8, 16), functional.normalize(torch.randn(8, 16))

    def compute(x: torch.Tensor) -> torch.Tensor:
        return functional.normalize(x).exp() + torch.ones(8, 16).clamp(max=2.0) * 1.0

    for given, calls in ((x, 0), (rows, 1)):
        limits, _ = improving_changes.missed_by(compute, [given], traits=True)
        assert limits.idle.idle
        model = Counted(compute)
        found = improving_changes.loosened(model, [given], limits)
        assert (len(found), model.watched) == (calls, calls)
