"""Inputs with signs at random where products of one sign average roundings out, with rows of zeros
where a reference divides, and large ones where it subtracts a maximum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from workers.protocol.input_variants import Variant
from workers.shims.problem.inputs import improving_changes, planned_inputs, reaching_inputs
from workers.shims.problem.inputs.planned_inputs import Plan


def _planned(model: Callable[..., Any], *inputs: torch.Tensor) -> Plan:
    torch.manual_seed(0)
    return reaching_inputs.plan(
        model, lambda: [x.clone() for x in inputs], torch.device("cpu"), reaching_inputs.NO_WORK
    )


@pytest.mark.parametrize(
    ("model", "balanced"),
    [
        (torch.matmul, {0, 1}),
        (lambda a, b: (a - 0.5) @ b, set()),
        (lambda a, b: a.exp() @ b, {1}),
        (lambda a, b: a * b.T, set()),
        (lambda a, b: (a - 0.5).softmax(1) @ (b - 0.5), set()),
        (lambda a, b: functional.scaled_dot_product_attention(a[None], b.T[None], b.T[None]), {1}),
    ],
)
def test_inputs_of_products_of_one_sign_receive_both(
    model: Callable[..., Any], balanced: set[int]
) -> None:
    a, b = torch.rand(8, 16), torch.rand(16, 8)
    plan = _planned(model, a, b)
    assert plan.balanced >= balanced if balanced else not plan.balanced
    for at in balanced:
        x = planned_inputs.applied(Variant.BALANCED, plan, [a, b])[at]
        assert torch.equal(x.abs(), (a, b)[at])
        assert bool((x < 0).any() and (x > 0).any())


def test_inputs_of_both_signs_stay() -> None:
    assert not _planned(torch.matmul, torch.randn(8, 16), torch.randn(16, 8)).balanced


def _scaled(x: torch.Tensor, least: float = 0.0) -> torch.Tensor:
    """Rows divided by their largest values, which are at least `least`."""
    return x / x.abs().amax(1, keepdim=True).clamp(min=least)


@pytest.mark.parametrize(
    ("model", "emptied"),
    [
        (lambda a, b: functional.normalize(a) + b, {0, 1}),
        (lambda a, b: a / a.norm(dim=1, keepdim=True) + b, {1}),
        (lambda a, b: functional.layer_norm(a + b, (16,)), {0, 1}),
        (lambda a, b: functional.cosine_similarity(a, b), {0, 1}),
        (lambda a, b: a.sqrt() + b, {0, 1}),
        (lambda a, b: a / 3.0 + b, set()),
        (lambda a, b: a.log1p() + b.log(), {0}),
        (lambda a, b: (_scaled(a).to(torch.float8_e4m3fn), b / a), {1}),
        (lambda a, b: (_scaled(a).to(torch.int8), b.log1p()), {1}),
        (lambda a, b: (_scaled(a, 1e-9).to(torch.int8), b.log1p()), {0, 1}),
    ],
)
def test_rows_are_zeros_where_the_reference_divides_and_stays_finite(
    model: Callable[..., Any], emptied: set[int]
) -> None:
    a, b = torch.rand(8, 16) + 2, torch.randn(8, 16).abs() + 2
    plan = _planned(model, a, b)
    assert plan.emptied == emptied
    given = planned_inputs.applied(Variant.EMPTIED, plan, [a, b])
    for at, (x, usual) in enumerate(zip(given, (a, b), strict=True)):
        assert bool((x == 0).all(dim=1).any()) is (at in plan.emptied)
        assert not bool((x == 0).all(dim=1).all())
        assert x.shape == usual.shape


@pytest.mark.parametrize(
    ("least", "may_stop", "emptied"), [(0.5, True, set()), (0.5, False, {0}), (0.0, True, {0})]
)
def test_numbers_that_keep_away_from_zero_do_so_where_a_loop_ends_by_itself(
    least: float, may_stop: bool, emptied: set[int]
) -> None:
    inputs = [100 * torch.rand(64, 128, generator=torch.Generator().manual_seed(0)) + least]
    missed = improving_changes.missed_by(functional.normalize, inputs)[0]
    found = improving_changes.emptied(functional.normalize, inputs, missed, may_stop=may_stop)
    assert found == emptied


def test_rows_that_sum_to_one_keep_a_single_number() -> None:
    shares = torch.rand(8, 16).softmax(dim=1)
    plan = _planned(lambda x: torch.special.xlogy(x, x).sum(1), shares)
    (x,) = planned_inputs.applied(Variant.EMPTIED, plan, [shares])
    assert torch.allclose(x.sum(dim=1), torch.ones(8))
    assert int(((x != 0).sum(dim=1) == 1).sum()) in range(1, 8)


def _weighted(x: torch.Tensor) -> torch.Tensor:
    top = x.max(dim=1)[0].unsqueeze(1)
    powers = torch.exp(x - top)
    return powers / powers.sum(dim=1, keepdim=True)


@pytest.mark.parametrize(
    ("model", "reaches"),
    [
        (_weighted, True),
        (lambda x: torch.exp(x - torch.maximum(x, torch.zeros_like(x))), True),
        (lambda x: torch.exp(x - x.mean(dim=1, keepdim=True)), False),
    ],
)
def test_numbers_overflow_from_which_a_maximum_is_subtracted(
    model: Callable[..., Any], reaches: bool
) -> None:
    x = torch.randn(8, 16)
    plan = _planned(model, x)
    assert (plan.scaling is not None) is reaches
    if reaches:
        (given,) = planned_inputs.applied(Variant.REACHING, plan, [x])
        assert not bool(torch.exp(given).isfinite().all())


def test_no_part_of_these_is_made() -> None:
    plan = reaching_inputs.plan(
        lambda a: functional.normalize(a) @ a.T,
        lambda: [torch.rand(8, 16) + 2],
        torch.device("cpu"),
    )
    assert plan.all_kinds == (Variant.BALANCED, Variant.EMPTIED)


@pytest.mark.parametrize(("most", "balanced"), [(1 << 20, {0, 1}), (64, set())])
def test_of_large_problems_products_are_examined(
    monkeypatch: pytest.MonkeyPatch, most: int, balanced: set[int]
) -> None:
    monkeypatch.setattr(reaching_inputs, "LARGEST_BYTES", 32)
    monkeypatch.setattr(reaching_inputs, "LARGEST_PRODUCTS", most)
    plan = _planned(lambda a, b: torch.relu(a @ b), torch.rand(8, 16), torch.rand(16, 8))
    assert plan == Plan(balanced=frozenset(balanced))


def test_only_inputs_that_exp_needs_to_overflow_are_scaled() -> None:
    def gates(x: torch.Tensor, rate: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        return state * torch.exp(-rate.exp() * functional.softplus(x))

    inputs = [torch.randn(64, 8), torch.randn(8), torch.randn(64, 8)]
    plan = _planned(gates, *inputs)
    assert plan.scaling is not None
    assert plan.scaling.kept == {1, 2}
    x, rate, state = planned_inputs.applied(Variant.REACHING, plan, inputs)
    assert float(x.amax()) > 88
    assert torch.equal(rate, inputs[1])
    assert torch.equal(state, inputs[2])


def test_both_factors_of_a_softmax_are_scaled_where_one_is_too_small() -> None:
    torch.manual_seed(0)
    plan = _planned(
        lambda q, k, v: torch.softmax(q @ k.T, -1) @ v, *(torch.randn(16, 8) for _ in range(3))
    )
    assert plan.scaling is not None
    assert plan.scaling.kept == {2}
