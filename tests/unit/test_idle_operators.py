"""Inputs with a trait that the reference restores: unit rows, a symmetric matrix, a mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from workers.protocol.input_variants import Variant
from workers.shims.problem.inputs import input_changes, planned_inputs, reaching_inputs
from workers.shims.problem.inputs.planned_inputs import Plan


def _planned(model: Callable[..., Any], *inputs: torch.Tensor) -> Plan:
    torch.manual_seed(0)
    return reaching_inputs.plan(
        model, lambda: [x.clone() for x in inputs], torch.device("cpu"), reaching_inputs.NO_WORK
    )


torch.manual_seed(0)
UNIT, SQUARE = functional.normalize(torch.randn(8, 16)), torch.randn(8, 8)
SYMMETRIC, SHARES = SQUARE + SQUARE.T, torch.rand(8, 16).softmax(dim=1)
MASK, ROTATION = (torch.rand(8, 16) > 0.5).float(), torch.linalg.qr(SQUARE).Q


def _rotation(x: torch.Tensor) -> torch.Tensor:
    left, _, right = torch.linalg.svd(x)
    return left @ right


@pytest.mark.parametrize(
    ("model", "given", "is_loosened"),
    [
        (lambda x: functional.normalize(x).exp(), UNIT, True),
        (lambda x: x.exp(), UNIT, False),
        (lambda x: (x @ x.T) / torch.outer(x.norm(dim=1), x.norm(dim=1)), UNIT, True),
        (lambda x: ((x + x.T) / 2).exp(), SYMMETRIC, True),
        (lambda x: x.exp() @ x, SYMMETRIC, False),
        (lambda x: x.clamp(-50, 50) @ x, SYMMETRIC, False),
        (lambda x: torch.tril(x).exp(), torch.tril(SQUARE), True),
        (lambda x: (x - x.mean(dim=1, keepdim=True)).exp(), UNIT - UNIT.mean(1, True), True),
        (lambda x: (x / x.sum(dim=1, keepdim=True)).log(), SHARES, True),
        (lambda x: _rotation(x).exp(), ROTATION, True),
        (lambda x: (x > 0.5).float().cumsum(dim=1), MASK, True),
        (lambda x: (x * 2).cumsum(dim=1), MASK, False),
        (lambda x: torch.sort(x, dim=1).values.exp(), torch.sort(SQUARE).values, False),
        (lambda x: (x * 1.0 + x.detach().clone()).exp(), SQUARE, False),
    ],
)
def test_a_trait_is_lost_where_the_reference_restores_it(
    model: Callable[..., Any], given: torch.Tensor, is_loosened: bool
) -> None:
    plan = _planned(model, given)
    assert plan.loosened == (frozenset({0}) if is_loosened else frozenset())
    assert (Variant.LOOSENED in plan.all_kinds) is is_loosened
    if is_loosened:
        assert plan.is_partial
        (changed,) = planned_inputs.applied(Variant.LOOSENED, plan, [given])
        assert not torch.allclose(changed, given, rtol=1e-2)


def test_only_the_input_that_is_restored_changes() -> None:
    plan = _planned(lambda a, b: functional.normalize(a) @ b, UNIT, SYMMETRIC.repeat(2, 1))
    assert plan.loosened == frozenset({0})


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.0, 0.0), (-1.0, 1.0), (2.0, 9.0)])
def test_signs_and_bounds_stay(low: float, high: float) -> None:
    x = low + (high - low) * torch.rand(64, 64)
    changed = input_changes.loosened(x)
    assert not torch.allclose(changed, x, rtol=0.05)
    assert bool((changed >= 0).all()) == (low >= 0)
    assert bool((changed <= 0).all()) == (high <= 0)
    assert high > 1 or low < -1 or bool((changed.abs() <= 1).all())


def test_of_whole_numbers_zeros_stay_zero_and_others_on_their_side_of_a_half() -> None:
    changed = input_changes.loosened(MASK)
    assert torch.equal(changed == 0, MASK == 0)
    assert torch.equal(changed > 0.5, MASK > 0.5)
    assert not torch.equal(changed, MASK)
