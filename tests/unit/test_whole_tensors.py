"""Inputs that are scaled, or zero, as a whole, and rows that are sorted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from workers.protocol.input_variants import Variant
from workers.shims.problem.inputs import local_changes, planned_inputs, varied_inputs
from workers.shims.problem.inputs import reaching_inputs as reaching
from workers.shims.problem.inputs.planned_inputs import Plan


def _plan(model: Callable[..., Any], count: int = 1) -> Plan:
    torch.manual_seed(0)
    return reaching.plan(
        model,
        lambda: [torch.randn(64, 512) for _ in range(count)],
        torch.device("cpu"),
        reaching.NO_WORK,
    )


def _clipped(x: torch.Tensor) -> torch.Tensor:
    return x * torch.clamp(1.0 / (torch.linalg.vector_norm(x) + 1e-6), max=1.0)


@pytest.mark.parametrize("model", [_clipped, lambda x: x / x.norm().clamp(min=1.0)])
def test_a_norm_of_a_tensor_falls_below_its_limit(model: Callable[..., Any]) -> None:
    plan, given = _plan(model), torch.randn(64, 512)
    assert plan.scaling is not None
    assert plan.scaling.is_whole
    (small,) = planned_inputs.applied(Variant.REACHING, plan, [given])
    assert float(small.norm()) < 1
    assert torch.allclose(small / small.norm(), given / given.norm())


def test_limits_of_elements_are_reached_in_every_second_row() -> None:
    plan = _plan(lambda x: x.clamp(max=30.0))
    assert plan.scaling is not None
    assert not plan.scaling.is_whole


def _trusted(w: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    one, other = w.norm(), u.norm()
    return w - torch.where(one > 0, torch.where(other > 0, one / other, 1.0), 1.0) * u


@pytest.mark.parametrize(
    ("model", "zeroed"),
    [
        (_trusted, {0, 1}),
        (lambda w, u: w / w.norm().clamp(min=1e-6) + u, {0}),
        (lambda w, u: w / w.norm() + u, set()),  # not finite
        (lambda w, u: (w.norm(dim=1, keepdim=True) > 0) * u, set()),  # rows of zeros show that
        (lambda w, u: w + u, set()),
    ],
)
def test_inputs_are_zero_where_the_reference_asks_for_that(
    model: Callable[..., Any], zeroed: set[int]
) -> None:
    plan = _plan(model, 2)
    assert plan.zeroed == zeroed
    if zeroed:
        assert Variant.EMPTIED in plan.kinds
        drawn = [
            planned_inputs.applied(Variant.EMPTIED, plan, [torch.randn(64, 512) for _ in range(2)])
            for _ in range(24)
        ]
        assert {at for given in drawn for at, x in enumerate(given) if not x.any()} == zeroed


def test_some_rows_are_sorted_among_local_changes() -> None:
    torch.manual_seed(0)
    rows = local_changes.in_order(torch.randn(8, 16))
    steps = rows.diff()
    assert bool((steps <= 0).all())
    given = torch.randn(256, 64)
    found = local_changes.in_few_rows(given, local_changes.in_order)
    are_sorted = (found.diff() <= 0).all(1)
    assert 1 <= int(are_sorted.sum()) <= 4
    assert torch.equal(found.sort(dim=1).values, given.sort(dim=1).values)


@pytest.mark.parametrize("seed", range(8))
def test_in_few_rows_sorting_leaves_equal_parts_equal(seed: int) -> None:
    """The largest elements of such a row are there twice, and none of them twice in one part."""
    torch.manual_seed(seed)
    rows = varied_inputs._with_equal_parts(torch.randn(2, 64), 1.0)
    changed = rows[1]
    assert torch.equal(changed[:32], changed[32:])
    assert torch.equal(changed[::2], changed[1::2])
    assert changed.max() == changed[0]
