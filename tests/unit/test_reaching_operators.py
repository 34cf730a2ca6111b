"""Inputs for operators that are something simpler on a problem's own inputs: a softmax
without large numbers, a maximum of positive ones, integers of one sign.
"""

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.unit.test_reaching import _normal, _plan
from workers.protocol.input_variants import Variant
from workers.shims.problem.inputs import planned_inputs
from workers.shims.problem.inputs.planned_inputs import Plan

functional = torch.nn.functional


@pytest.mark.parametrize(
    "model",
    [
        lambda x: x.softmax(-1),
        lambda x: x.log_softmax(-1),
        lambda x: x.logsumexp(-1),
        torch.nn.functional.softplus,
        torch.nn.functional.logsigmoid,
        lambda x: (x @ x.T / 32).softmax(-1),
        lambda x: functional.cross_entropy(x, torch.zeros(64, dtype=torch.long)),
        lambda x: functional.softmin(torch.cdist(x, -x), -1),
        lambda x: x.triu().masked_fill(x.tril() == 0, float("-inf")).softmax(0),
    ],
)
def test_exp_overflows_or_vanishes_in_a_softmax_without_its_maximum(
    model: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    plan = _plan(model, _normal)
    assert Variant.REACHING in plan.kinds
    assert plan.scaling is not None
    assert plan.scaling.factor < 100
    assert model(planned_inputs.applied(Variant.REACHING, plan, [_normal()])[0]).isfinite().all()


def test_softmax_arguments_overflow_once_scaled() -> None:
    plan = _plan(lambda x: x.softmax(-1), _normal)
    (x,) = planned_inputs.applied(Variant.REACHING, plan, [_normal()])
    sums = x.exp().sum(-1)
    assert sums.isinf().any()
    assert sums[1::2].isfinite().any()


def _by_the_first(x: torch.Tensor) -> torch.Tensor:
    """A softmax that subtracts the largest number of a part of each row."""
    e = torch.exp(x - x[:, :8].amax(dim=1, keepdim=True))
    return e / e.sum(dim=1, keepdim=True)


def test_a_softmax_overflows_beyond_the_part_that_is_looked_at() -> None:
    def draw() -> torch.Tensor:
        return torch.rand(64, 512)

    plan = _plan(lambda x: torch.softmax(x, dim=1), draw)
    for kind in (Variant.REACHING, Variant.PARTLY):
        (x,) = planned_inputs.applied(kind, plan, [draw()])
        assert not _by_the_first(x).isfinite().all()


@pytest.mark.parametrize("width", [8, 16])
def test_scores_of_attention_overflow_once_scaled(width: int) -> None:
    def draw() -> torch.Tensor:
        return torch.randn(2, 2, 32, width)

    plan = _plan(functional.scaled_dot_product_attention, draw, draw, draw)
    assert plan.kinds[0] == Variant.REACHING
    q, k, _ = planned_inputs.applied(Variant.REACHING, plan, [draw(), draw(), draw()])
    assert float((q @ k.mT).amax()) / width**0.5 > 89


@pytest.mark.parametrize(
    "model",
    [
        lambda x: functional.layer_norm(x, x.shape[-1:]).softmax(-1),  # out of reach
        lambda x: (100 * x).softmax(-1),  # reached as it is
        lambda x: (x / 1e6).softmax(-1),  # too far
        lambda x: x.masked_fill(x < 1e9, float("-inf")).logsumexp(-1),  # nothing but a mask
    ],
)
def test_other_softmax_arguments_are_left_alone(
    model: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    assert _plan(model, _normal).scaling is None


@pytest.mark.parametrize(
    "model",
    [
        torch.tanh,
        torch.sigmoid,
        torch.erf,
        torch.sin,
        functional.gelu,
        functional.silu,
        lambda x: torch.tanh(x @ torch.ones(32, 8)),
    ],
)
def test_functions_are_more_than_a_polynomial_once_scaled(
    model: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    plan = _plan(model, lambda: torch.randn(64, 32) * 1e-4)
    assert plan.scaling is not None
    (x,) = planned_inputs.applied(Variant.REACHING, plan, [torch.randn(64, 32) * 1e-4])
    straight = x * (model(torch.full_like(x, 1e-3)).flatten()[0] / 1e-3)
    assert float((model(x).sum(-1) - straight.sum(-1)).abs().amax()) > 0.1


@pytest.mark.parametrize(
    ("model", "draw"),
    [
        (torch.tanh, _normal),
        (torch.sigmoid, lambda: torch.zeros(64, 32)),
        (lambda x: torch.tanh(functional.layer_norm(x, (32,)) * 1e-3), _normal),
    ],
)
def test_other_values_of_functions_are_left_alone(
    model: Callable[[torch.Tensor], torch.Tensor], draw: Callable[[], torch.Tensor]
) -> None:
    assert _plan(model, draw).scaling is None


@pytest.mark.parametrize(
    ("model", "draw"),
    [
        (lambda x: functional.max_pool2d(x, 3, 2, 1), lambda: torch.rand(4, 2, 16, 16)),
        (lambda x: functional.max_pool1d(x, 3, 2, 1), lambda: torch.rand(4, 2, 32)),
        (lambda x: functional.max_pool3d(x, 3, 2, 1), lambda: torch.rand(1, 2, 8, 8, 8)),
        (lambda x: functional.max_pool3d(x, 3, 2, 1), lambda: torch.rand(2, 2, 8, 8, 8)),
        (lambda x: functional.adaptive_max_pool2d(x, 4), lambda: torch.rand(4, 2, 16, 16)),
        (lambda x: x.amax(-1), lambda: torch.rand(64, 300)),
        (lambda x: x.max(dim=-1).values, lambda: torch.rand(64, 300)),
        (lambda x: x.min(dim=-1).values, lambda: -torch.rand(64, 300)),
        (lambda x: x.cummax(dim=-1).values, lambda: torch.rand(64, 300)),
    ],
)
def test_some_of_the_maxima_of_positive_numbers_become_negative(
    model: Callable[[torch.Tensor], torch.Tensor], draw: Callable[[], torch.Tensor]
) -> None:
    plan = _plan(model, draw)
    assert plan.signed == {0}
    before = draw()
    (x,) = planned_inputs.applied(Variant.SIGNED, plan, [before])
    found = model(x) * model(before).sign()
    assert 0.2 < float((found < 0).float().mean()) < 0.8
    assert float(found.amin()) < -0.4


def test_maxima_of_amounts_are_left_alone() -> None:
    assert _plan(lambda x: x.abs().amax(-1), _normal) == Plan()


@pytest.mark.parametrize(
    "model",
    [
        lambda x: x // 7 * 3,
        lambda x: torch.div(x, 7, rounding_mode="floor"),
        lambda x: x % 7,
        lambda x: (x * x).sum(-1),
        lambda x: (x >> 2) ^ x,
        lambda x: x.cumsum(-1),
    ],
)
def test_integers_that_are_only_computed_with_leave_their_range(
    model: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    def draw() -> torch.Tensor:
        return torch.randint(0, 1000, (64, 50))

    plan = _plan(model, draw)
    assert plan.kinds[0] == Variant.NAMED
    (x,) = planned_inputs.applied(Variant.NAMED, plan, [draw()])
    assert int(x.amin()) < 0
    assert int(x.amax()) > 4000
    assert 0.5 < float(((x >= 0) & (x < 1000)).float().mean()) < 0.9


@pytest.mark.parametrize(
    "model",
    [
        lambda x: torch.zeros(1000)[x % 1000],  # an index
        lambda x: functional.embedding(x * 7 % 64, torch.zeros(64, 8)),  # a hash
        lambda x: x.bincount(minlength=1000),
        lambda x: torch.zeros(64, 64).masked_fill(torch.arange(64) >= x[:64, None], 1.0),  # lengths
        lambda x: x.float() * 0.1,  # codes
        lambda x: torch.randn(2).repeat_interleave(x.sum()[None].clamp(max=2)),
        lambda x: x[:1].sum().item() + x * 2,  # Python computes with it
        lambda x: 1 << (x % 32) << x.clamp(max=2),
    ],
)
def test_other_integers_keep_their_range(model: Callable[..., Any]) -> None:
    named = _plan(model, lambda: torch.randint(0, 1000, (1000,))).named
    assert all(0 <= value < 2000 for _, value in named)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: torch.randint(0, 2, (64, 50)),  # a mask
        lambda: torch.randint(-128, 128, (64, 50), dtype=torch.int8),  # all that the type has
        lambda: torch.randint(-500, 500, (64, 50)),
        lambda: torch.randint(0, 2**31 - 1, (64, 50), dtype=torch.int32),  # bits without the sign
    ],
)
def test_integers_of_both_signs_and_masks_keep_their_range(
    draw: Callable[[], torch.Tensor],
) -> None:
    assert replace(_plan(lambda x: x * 3 + 1, draw), emptied=frozenset()) == Plan()


@pytest.mark.parametrize(
    "model",
    [
        lambda x, at: x[at],
        lambda x, at: x.index_select(0, at),
        lambda x, at: functional.embedding(at, x),
        lambda x, at: x[:, :1].gather(0, at[:, None]),
        lambda x, at: x * at[:, None],
        lambda x, at: x + torch.cos(at.float())[:, None],
        lambda x, at: x[at] * torch.sin(at[:, None] * 0.1),
    ],
)
def test_positions_without_a_gap_change_places_where_they_are_only_read(
    model: Callable[..., Any],
) -> None:
    plan = _plan(model, _normal, lambda: torch.arange(64))
    assert plan.fixed == {1}
    _, at = planned_inputs.applied(Variant.REDRAWN, plan, [_normal(), torch.arange(64)])
    assert not torch.equal(at, torch.arange(64))
    assert torch.equal(at.sort().values, torch.arange(64))
    _, at = planned_inputs.applied(Variant.PARTLY, plan, [_normal(), torch.arange(64)])
    assert 0 <= int(at.amin()) <= int(at.amax()) < 64
    assert len(at.unique()) < 64


@pytest.mark.parametrize(
    "model",
    [
        lambda x, at: x.index_add(0, at, x),  # each place once
        lambda x, at: x * (at == 3)[:, None],
        lambda x, at: torch.stack([x[a:b].sum(0) for a, b in itertools.pairwise(at)]),
    ],
)
def test_other_positions_without_a_gap_stay(model: Callable[..., Any]) -> None:
    assert not _plan(model, _normal, lambda: torch.arange(64)).fixed


def test_smoothing_asks_for_no_label_of_its_own() -> None:
    def draw() -> torch.Tensor:
        return torch.randint(0, 32, (64,))

    smoothed = functools.partial(functional.cross_entropy, label_smoothing=0.1)
    assert not _plan(smoothed, _normal, draw).named

    def without_some(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return smoothed(x, labels) * (labels != -100).sum()

    assert _plan(without_some, _normal, draw).named == ((1, -100.0),)


@pytest.mark.parametrize("ignored", [0, -1, 255])
def test_labels_that_a_loss_ignores_occur(ignored: int) -> None:
    def draw() -> torch.Tensor:
        return torch.randint(1, 32, (64,))

    def loss(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(x, labels, ignore_index=ignored)

    plan = _plan(loss, _normal, draw)
    assert plan.named == ((1, float(ignored)),)
    _, labels = planned_inputs.applied(Variant.NAMED, plan, [_normal(), draw()])
    assert 0 < int((labels == ignored).sum()) < 32
    assert not _plan(functional.cross_entropy, _normal, draw).named


@pytest.mark.parametrize("is_aligned", [False, True])
def test_some_points_lie_outside_of_a_sampled_picture(is_aligned: bool) -> None:
    def points() -> torch.Tensor:
        return 2 * torch.rand(4, 9, 9, 2) - 1

    def sample(picture: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return functional.grid_sample(picture, at, align_corners=is_aligned)

    plan = _plan(sample, lambda: torch.randn(4, 3, 8, 8), points)
    given = [torch.randn(4, 3, 8, 8), points()]
    _, at = planned_inputs.applied(Variant.REACHING, plan, given)
    assert 0.2 < float((at.abs() > 1).double().mean()) < 0.8


def test_some_probabilities_are_zero_where_the_logarithm_of_zero_is_finite() -> None:
    def draw() -> torch.Tensor:
        return torch.rand(64, 32)

    plan = _plan(functional.binary_cross_entropy, draw, draw)
    assert plan.named == ((0, 0.0),)
    assert not _plan(lambda x, y: (y * x.log()).mean(), draw, draw).named


def test_a_flag_that_is_always_set_is_drawn_anew() -> None:
    plan = _plan(lambda x, flag: torch.where(flag, x, -x), _normal, lambda: torch.tensor(True))
    assert plan.fixed == {1}
    _, flag = planned_inputs.applied(Variant.REDRAWN, plan, [_normal(), torch.tensor(True)])
    assert flag.shape == ()
    assert not flag


def _positive() -> torch.Tensor:
    return torch.rand(64, 32)


@pytest.mark.parametrize(
    "model",
    [
        lambda x: torch.linalg.vector_norm(x, ord=1, dim=1),
        lambda x: functional.pairwise_distance(x, torch.zeros(()), p=3, eps=0),
        lambda x: torch.linalg.vector_norm(x, ord=math.inf, dim=1),
        lambda x: torch.atan2(torch.ones(()), x),
        lambda x: torch.copysign(torch.ones(()), x),
        torch.round,
        lambda x: torch.histc(x, 16, 0.0, 1.0),
    ],
)
def test_some_numbers_of_one_sign_are_negated_where_an_operator_distinguishes_them(
    model: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    plan = _plan(model, _positive)
    assert plan.signed == {0}
    (x,) = planned_inputs.applied(Variant.SIGNED, plan, [_positive()])
    assert float(x.amin()) < 0 < float(x.amax())


def test_norms_of_even_order_have_no_sign() -> None:
    for order in (2, 4):
        model = functools.partial(torch.linalg.vector_norm, ord=order, dim=1)
        assert not _plan(model, _positive).signed


def test_some_numbers_lie_beyond_the_range_of_a_histogram() -> None:
    plan = _plan(lambda x: torch.histc(x, 16, 0.0, 1.0), _positive)
    (x,) = planned_inputs.applied(Variant.REACHING, plan, [_positive()])
    assert 0.2 < float((x > 1).double().mean()) < 0.8
    assert _plan(lambda x: torch.histc(x, 16), _positive) == Plan()


def test_some_indices_are_those_that_a_bag_leaves_out() -> None:
    def draw() -> torch.Tensor:
        return torch.randint(1, 32, (16, 4))

    def bags(at: torch.Tensor, table: torch.Tensor, padding: int | None) -> torch.Tensor:
        return functional.embedding_bag(at, table, mode="mean", padding_idx=padding)

    for padding, named in ((0, ((0, 0.0),)), (None, ())):
        plan = _plan(functools.partial(bags, padding=padding), draw, lambda: torch.randn(32, 8))
        assert plan.named == named


def test_whole_numbers_of_floats_lie_on_both_sides_of_a_limit() -> None:
    def counts() -> torch.Tensor:
        return torch.randint(2, 9, (64,)).float()

    assert _plan(lambda n: 1 / n.clamp(min=1), counts).named == ((0, 0),)
    assert _plan(lambda n: torch.where(n <= 1, n, n.log()), counts).named == ((0, 1),)
    assert not _plan(lambda n: n.clamp(min=-1e9), counts).named


def test_nan_is_named_where_sums_leave_it_out() -> None:
    ((at, value),) = _plan(lambda x: x.nansum(-1), _normal).named
    assert at == 0
    assert math.isnan(value)
