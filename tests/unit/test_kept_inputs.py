"""Small changes to an input, of which an answer leaves some or all out."""

import pytest
import torch

from app.domain.output_checks import Trial
from workers.referee.comparison import correctness, kept_inputs
from workers.referee.wrong_output import describe

SHAPE = (64, 128)


def _given(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(SHAPE, generator=torch.Generator().manual_seed(1)).to(dtype).flatten()


def _branch() -> torch.Tensor:
    generator = torch.Generator().manual_seed(2)
    return torch.randn(SHAPE, generator=generator, dtype=torch.float64).flatten()


def _found(got: torch.Tensor, exact: torch.Tensor, given: torch.Tensor) -> int | None:
    return kept_inputs.first(got, exact, exact.to(given.dtype), [(3, given)])


@pytest.mark.parametrize("scale", [1e-6, 1e-4, 1e-2])
def test_a_branch_that_is_left_out(scale: float) -> None:
    given = _given()
    exact = given.double() + scale * _branch()
    assert _found(given.clone(), exact, given) == 3
    most = given.double() + 0.4 * scale * _branch()
    assert _found(most.float(), exact, given) == 3


@pytest.mark.parametrize("scale", [1e-6, 1e-4, 1e-2])
def test_a_branch_in_half_precision_is_no_evidence(scale: float) -> None:
    given = _given()
    exact = given.double() + scale * _branch()
    rounded = given + scale * _branch().half().float()
    assert _found(rounded, exact, given) is None
    other_order = (given * 3 + scale * 3 * _branch().float()) / 3
    assert _found(other_order, exact, given) is None


def test_a_step_below_the_tolerance_of_bf16() -> None:
    given = _given(torch.bfloat16)
    exact = given.double() - 2e-3 * torch.sign(_branch())
    assert _found(given.clone(), exact, given) == 3
    step = given.float() - 2e-3 * torch.sign(_branch().float())
    assert _found(step.bfloat16(), exact, given) is None
    twice_rounded = step.half().bfloat16()
    assert _found(twice_rounded, exact, given) is None


def test_a_change_that_rounding_undoes() -> None:
    given = _given(torch.bfloat16)
    exact = given.double() * (1 + 1e-4)
    assert _found(given.clone(), exact, given) is None
    assert kept_inputs.rounds_to_one(exact, exact.bfloat16(), [(0, given)])
    moved = given.double() * 1.02
    assert not kept_inputs.rounds_to_one(moved, moved.bfloat16(), [(0, given)])
    assert not kept_inputs.rounds_to_one(given.double(), given, [(0, given)])


def test_an_answer_that_is_far_from_the_input_says_nothing() -> None:
    given = _given()
    exact = given.double() + _branch()
    assert _found(given.clone(), exact, given) is None


def test_rounding_of_rows_that_are_normalised_already() -> None:
    rows = torch.nn.functional.normalize(_given().view(SHAPE), dim=1)
    exact = torch.nn.functional.normalize(rows.double(), dim=1)
    own = torch.nn.functional.normalize(rows, dim=1)
    given = rows.flatten()
    assert kept_inputs.first(given, exact.flatten(), own.flatten(), [(0, given)]) is None


def test_infinities_say_nothing() -> None:
    given = _given()
    given[5] = torch.inf
    exact = given.double() + 1e-6 * _branch()
    assert _found(exact.float(), exact, given) is None


def test_parts_give_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    given = _given()
    exact = given.double() + 1e-6 * _branch()
    monkeypatch.setattr(kept_inputs, "AT_ONCE", 1000)
    assert _found(given.clone(), exact, given) == 3
    assert _found(exact.float(), exact, given) is None


def test_the_message_names_the_input() -> None:
    given = _given().view(1, -1)
    exact = given.double() + 1e-6 * _branch()
    compared = correctness.compare(
        given.clone(), exact, exact.float(), torch.zeros(64, dtype=torch.uint8), 0, SHAPE
    )
    assert compared.ok == [True]
    closer = compared.by_changes([[(2, given[0])]], exact, exact.float())
    assert (closer.ok, closer.check(0).kept_input) == ([False], 2)
    trial = Trial(call=0, seed="", ok=False, outputs=(closer.check(0),))
    assert "makes to input 2" in describe(trial, correctness.DEFAULT_RULE)
