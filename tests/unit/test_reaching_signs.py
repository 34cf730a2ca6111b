"""Inputs of both signs, integers and NaN that a reference names, and orders that it relies on."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.unit.test_reaching import _normal, _plan
from workers.protocol.input_variants import Variant
from workers.shims.problem.inputs import planned_inputs, reaching_inputs
from workers.shims.problem.inputs.planned_inputs import Plan


@pytest.mark.parametrize(
    "model",
    [
        torch.relu,
        torch.abs,
        torch.nn.functional.elu,
        torch.floor,
        lambda x: torch.div(x, 0.3, rounding_mode="floor"),
        lambda x: torch.nn.functional.leaky_relu(x, 0.1),
        lambda x: torch.where(x > 0, x, x.exp()),
        lambda x: torch.clamp(x, min=0),
        lambda x: torch.relu(x @ torch.ones(32, 8)),
    ],
)
def test_inputs_of_one_sign_get_both_where_signs_differ(
    model: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    plan = _plan(model, lambda: torch.rand(64, 32))
    assert replace(plan, iterated=(), balanced=frozenset()) == Plan(signed=frozenset({0}))
    (x,) = planned_inputs.applied(Variant.SIGNED, plan, [torch.rand(64, 32)])
    assert 0.3 < float((x < 0).float().mean()) < 0.7


@pytest.mark.parametrize(
    ("model", "draw"),
    [
        (lambda x: torch.relu(x), lambda: torch.randn(64, 32)),  # it has both
        (lambda x: torch.exp(x), lambda: torch.rand(64, 32)),  # it does not tell them apart
        (lambda x: torch.relu(x.sqrt()), lambda: torch.rand(64, 32)),  # not defined there
        (lambda x: torch.relu(x.square()), lambda: torch.rand(64, 32)),  # never sees them
        (lambda x: torch.relu(x), lambda: torch.randint(0, 2, (64, 32)).float()),  # a mask
        (lambda x: torch.relu(x), lambda: torch.rand(64, 32).softmax(-1)),  # shares
    ],
)
def test_other_inputs_of_one_sign_keep_it(
    model: Callable[..., Any], draw: Callable[[], torch.Tensor]
) -> None:
    assert replace(_plan(model, draw), iterated=(), emptied=frozenset()) == Plan()


def test_of_two_inputs_the_one_that_may_change_its_sign_does() -> None:
    plan = _plan(
        lambda x, y: torch.relu(x) / y.sqrt(),
        lambda: torch.rand(64, 32),
        lambda: 1 + torch.rand(64, 32),
    )
    assert replace(plan, iterated=(), emptied=frozenset()) == Plan(signed=frozenset({0}))


@pytest.mark.parametrize(
    ("model", "value"),
    [
        (lambda ids: (ids != 0).float(), 0),
        (lambda ids: (ids.view(-1) == 7).float(), 7),
        (lambda ids: torch.where(ids < 5, 0, ids), 4),
        (lambda ids: torch.where(ids >= 200, 0, ids), 200),
        (lambda ids: ids.clamp(max=150), 151),
        (lambda ids: (ids > -3).float(), -3),
    ],
)
def test_integers_that_the_reference_names_are_among_the_inputs(
    model: Callable[..., Any], value: int
) -> None:
    def draw() -> torch.Tensor:
        return torch.randint(10, 100, (64, 32))

    plan = _plan(model, draw)
    assert plan == Plan(named=((0, float(value)),))
    (ids,) = planned_inputs.applied(Variant.NAMED, plan, [draw()])
    assert 0.02 < float((ids == value).float().mean()) < 0.3


@pytest.mark.parametrize(
    "model", [lambda x: torch.nan_to_num(x), lambda x: torch.where(torch.isnan(x), 0.0, x)]
)
def test_nan_is_among_the_inputs_where_the_reference_replaces_it(model: Callable[..., Any]) -> None:
    plan = _plan(model, _normal)
    (x,) = planned_inputs.applied(Variant.NAMED, plan, [_normal()])
    assert 0 < int(x.isnan().sum()) < 200


@pytest.mark.parametrize(
    "model",
    [
        lambda ids: torch.zeros(100)[ids.where(ids != 500, ids)],  # an index out of range
        lambda ids: (ids + 1 == 0).float(),  # a result
        lambda ids: (ids != 50).float(),  # it occurs
        lambda ids: (ids != 3.5).float(),
    ],
)
def test_other_integers_stay_as_they_are(model: Callable[..., Any]) -> None:
    assert _plan(model, lambda: torch.arange(10, 90)[torch.randperm(80)]) == Plan()


def test_nan_that_only_a_result_could_be_is_not_put_in() -> None:
    assert _plan(lambda x: torch.nan_to_num(x.sigmoid()), _normal) == Plan()


def test_what_the_reference_sorts_is_given_unsorted() -> None:
    plan = _plan(lambda x: x.sort(dim=-1).values.diff(dim=-1), lambda: torch.rand(8, 64).cumsum(-1))
    assert plan == Plan(unsorted=frozenset({0}))
    given = torch.rand(8, 64).cumsum(-1)
    assert plan == _plan(lambda x: x.median(dim=-1).values, lambda: torch.rand(8, 64).cumsum(-1))
    (x,) = planned_inputs.applied(Variant.UNSORTED, plan, [given])
    assert torch.equal(x.sort(-1).values, given)
    assert not torch.equal(x, given)


@pytest.mark.parametrize(
    "choose",
    [
        lambda x: x.sort(dim=-1).values,
        lambda x: x.sort(dim=-1, descending=True).values,
        lambda x: x.median(dim=1).values,
        lambda x: x.median(),
        lambda x: x.kthvalue(9, dim=1).values,
        lambda x: x.topk(3).values,
        lambda x: x.T.topk(3, dim=0).values,
    ],
)
def test_positive_numbers_whose_sums_are_in_order_get_both_signs(
    choose: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    def in_rows(x: torch.Tensor) -> torch.Tensor:
        return choose(x.cumsum(-1).flatten() if choose(x).dim() == 0 else x.cumsum(-1))

    plan = _plan(in_rows, lambda: torch.rand(1, 64))
    assert plan.signed == frozenset({0})
    assert not _plan(choose, lambda: torch.rand(8, 64)).signed
    assert not _plan(in_rows, lambda: torch.randn(1, 64)).signed


def test_what_the_reference_does_not_sort_stays_sorted() -> None:
    edges = lambda: torch.rand(64).cumsum(-1)  # noqa: E731
    assert _plan(lambda x, at: torch.bucketize(x, at), _normal, edges) == Plan()


def test_what_the_reference_searches_stays_sorted_although_it_sorts_it_too() -> None:
    edges = lambda: torch.rand(64).cumsum(-1)  # noqa: E731
    model = lambda x, at: torch.bucketize(x, at) + at.sort().values.sum()  # noqa: E731
    assert _plan(model, _normal, edges) == Plan()


def test_nan_is_among_the_inputs_where_the_reference_looks_at_a_number_made_of_them() -> None:
    def step(values: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        is_finite = torch.isfinite(torch.linalg.vector_norm(gradient))
        return torch.where(is_finite, values - gradient, values)

    plan = _plan(step, _normal, _normal)
    assert [at for at, value in plan.named if math.isnan(value)] == [1]


@pytest.mark.parametrize(("divisor", "signed"), [(1.0, set()), (127.0, {1})])
def test_maxima_of_another_inputs_sizes_keep_their_sign(divisor: float, signed: set[int]) -> None:
    def draw() -> list[torch.Tensor]:
        weights = torch.randn(64, 32)
        return [weights, weights.abs().amax(dim=1) / divisor]

    def quantised(weights: torch.Tensor, most: torch.Tensor) -> torch.Tensor:
        return torch.clamp(weights / most[:, None], -1, 1) + torch.relu(most)[:, None]

    plan = reaching_inputs.plan(quantised, draw, torch.device("cpu"))
    assert plan.signed == signed
