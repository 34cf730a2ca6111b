"""Changed inputs stay in a problem's domain, or are not used."""

from typing import Any

import pytest
import torch

from workers.protocol.input_variants import CHECKED, Variant
from workers.referee.comparison import output_errors
from workers.shims.problem.answers import true_answer
from workers.shims.problem.inputs import input_domain
from workers.shims.problem.inputs.varied_inputs import applied


def _covariance() -> torch.Tensor:
    x = torch.randn(3, 16, 64)
    return x @ x.mT / 64 + 0.1 * torch.eye(16)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("variant", CHECKED, ids=lambda variant: variant.name)
def test_structure_is_kept(variant: Variant) -> None:
    changed = applied(variant, _covariance())
    assert not torch.linalg.cholesky_ex(changed).info.any()
    assert torch.allclose(changed, changed.mT)
    turns = applied(variant, torch.linalg.qr(torch.randn(5, 16, 16)).Q)
    assert torch.allclose(turns @ turns.mT, torch.eye(16).expand(5, 16, 16), atol=1e-2)
    edges = applied(variant, torch.randn(63).sort().values)
    assert (edges[1:] >= edges[:-1]).all()
    shares = applied(variant, torch.randn(30, 40).softmax(-1))
    assert torch.allclose(shares.sum(-1), torch.ones(30), atol=1e-2)
    keys = applied(variant, torch.nn.functional.normalize(torch.randn(30, 40), dim=-1))
    assert torch.allclose(torch.linalg.vector_norm(keys, dim=-1), torch.ones(30), atol=1e-2)
    mask = applied(variant, torch.ones(9, 9).tril())
    assert not mask.triu(1).any()
    assert set(applied(variant, (torch.rand(900) < 0.5).float()).tolist()) <= {0.0, 1.0}
    assert (applied(variant, -torch.rand(500)) <= 0).all()
    assert applied(variant, torch.randn(500).cos()).abs().max() <= 1
    first, second = applied(variant, torch.rand(30, 20).repeat(1, 2)).chunk(2, -1)
    assert torch.equal(first, second)
    pairs = applied(variant, torch.randn(30, 20).repeat_interleave(2, -1))
    assert torch.equal(pairs[:, ::2], pairs[:, 1::2])


@pytest.mark.parametrize("variant", CHECKED, ids=lambda variant: variant.name)
def test_zeros_that_every_slice_has_at_the_same_places_stay(variant: Variant) -> None:
    blocks = torch.ones(16, 16).tril(-1).repeat(4, 1)[None, :, None]  # batch, place, head, column
    assert not applied(variant, torch.randn(2, 64, 3, 16) * blocks)[
        blocks.expand(2, -1, 3, -1) == 0
    ].any()
    padded = torch.nn.functional.pad(torch.randn(40, 20), (0, 12))
    assert not applied(variant, padded)[:, 20:].any()


def test_zeros_of_a_relu_or_of_rows_may_be_filled() -> None:
    relu, rows = torch.randn(200, 50).relu(), torch.randn(200, 50) * (torch.rand(200, 1) < 0.5)
    for x, variant in ((relu, Variant.LOCAL), (relu, Variant.RESAMPLED), (rows, Variant.RESAMPLED)):
        assert ((x == 0) & (applied(variant, x) != 0)).any()


def test_ordinary_inputs_are_changed_by_each_variant() -> None:
    x = torch.randn(40, 50)
    assert not any(torch.equal(applied(variant, x), x) for variant in CHECKED)


def _objection(call: Any, usual: list[Any], changed: list[Any]) -> str:
    found = [
        input_domain.moved(call, true_answer.widened(x), call(true_answer.widened(x)))
        for x in (changed, usual)
    ]
    return input_domain.objection(*found)


def test_an_answer_that_moves_no_more_than_its_inputs_is_in_the_domain() -> None:
    def softmax(inputs: list[Any]) -> torch.Tensor:
        return torch.softmax(inputs[0], -1)

    for dtype in (torch.float32, torch.bfloat16):
        usual = torch.randn(32, 256).to(dtype)
        assert _objection(softmax, [usual], [usual * 2]) == ""


def test_a_recurrence_that_amplifies_roundings_is_not() -> None:
    def logistic(inputs: list[Any]) -> torch.Tensor:
        [x] = inputs
        for _ in range(60):
            x = 3.9 * x * (1 - x) if bool((inputs[0] > 0.5).all()) else 0.5 * x
        return x

    assert _objection(logistic, [torch.rand(64) * 0.4], [torch.rand(64) * 0.3 + 0.6]).startswith(
        "roundings of"
    )


@pytest.mark.parametrize(("dim", "is_tie"), [(0, True), (1, False)])
def test_places_among_equal_rows_are_ties_and_places_within_rows_are_not(
    dim: int, is_tie: bool
) -> None:
    def best(inputs: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
        return tuple(inputs[0].max(dim=dim))

    inputs = list(true_answer.widened([applied(Variant.RESAMPLED, torch.randn(64, 32))]))
    with_places = input_domain.moved(best, inputs, best(inputs), places=True)
    assert bool(input_domain.objection(with_places, input_domain.Moved())) == is_tie
    assert not input_domain.objection(
        input_domain.moved(best, inputs, best(inputs)), input_domain.Moved()
    )


def test_a_load_that_is_counted_over_tied_choices_is_not_in_the_domain() -> None:
    def load(inputs: list[Any]) -> torch.Tensor:
        shares = inputs[0].softmax(-1)
        chosen = torch.zeros_like(shares).scatter(1, shares.topk(4, -1).indices, 1.0)
        return (chosen.mean(0) * shares.mean(0)).sum()

    usual = [torch.randn(64, 24)]
    sparse = [applied(Variant.SPARSE, usual[0])]
    assert _objection(load, usual, sparse).startswith("roundings of")
    assert not _objection(load, usual, [usual[0] * 2])


def test_the_largest_of_many_zeros_are_zeros() -> None:
    def largest(inputs: list[Any]) -> torch.Tensor:
        return inputs[0].topk(4, -1).values

    usual = [torch.randn(64, 24)]
    assert not _objection(largest, usual, [applied(Variant.SPARSE, usual[0])])


def test_a_complex_number_is_finite_in_both_of_its_parts() -> None:
    assert output_errors.is_finite(torch.tensor([[1 + 2j]]))
    assert not output_errors.is_finite(torch.tensor([[complex(1, float("nan"))]]))
    assert output_errors.is_finite(torch.tensor([[3]]))
    assert not output_errors.is_finite(torch.tensor([[float("inf")]], dtype=torch.float8_e5m2))
