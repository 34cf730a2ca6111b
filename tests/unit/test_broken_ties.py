"""Integers that PyTorch does not define: places of equal values, and casts of no number."""

import math
from collections.abc import Callable

import pytest
import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from workers.shims.problem.answers import true_answer
from workers.shims.problem.inputs import input_domain
from workers.shims.problem.inputs.broken_ties import BrokenTies


@pytest.fixture
def equal() -> torch.Tensor:
    """Rows with two equal maxima and minima each, as a twin receives them."""
    x = torch.randn(16, 32, generator=torch.Generator().manual_seed(1))
    x[:, 5] = x[:, 20] = 7.0
    x[:, 6] = x[:, 21] = -7.0
    [wide] = true_answer.widened([x])
    return wide


@pytest.mark.parametrize(
    ("choose", "are_met"),
    [
        (lambda x: x.argmax(1), True),
        (lambda x: x.min(1).indices, True),
        (lambda x: torch.sort(x, dim=1, stable=True).indices, False),
        (lambda x: x.sort(1).indices, True),
        (lambda x: x.topk(1).indices, True),
        (lambda x: (8 * x).round().int(), False),
    ],
)
def test_places_of_equal_values_that_are_promised(
    equal: torch.Tensor, choose: Callable[[torch.Tensor], torch.Tensor], *, are_met: bool
) -> None:
    with BrokenTies() as ties:
        choose(equal)
    assert ties.were_met == are_met
    assert not ties.casts_no_number


def test_integers_of_no_number(equal: torch.Tensor) -> None:
    equal[2, 2] = math.nan
    with BrokenTies() as ties:
        equal.argmax(1)
        equal.isnan()
    assert not ties.casts_no_number
    with BrokenTies() as ties:
        equal.to(torch.int8)
    assert ties.casts_no_number


@pytest.mark.parametrize(
    ("compute", "may_choose"),
    [
        (lambda x: x.exp() @ x.T, False),
        (lambda x: x.sort(1).values, True),
        (lambda x: x.amax(1), False),
        (lambda x: x.exp() if float(x[0, 0]) > 0 else x.sort(1).values, True),
        (lambda x: x[x > 0].sum(), True),
    ],
)
def test_calls_without_a_choice_are_told(
    compute: Callable[[torch.Tensor], torch.Tensor], *, may_choose: bool
) -> None:
    seen: list[int] = []

    def watched(inputs: list[torch.Tensor]) -> torch.Tensor:
        seen.append(len(_get_current_dispatch_mode_stack()))
        return compute(inputs[0])

    x = torch.randn(8, 8)
    moved = input_domain.moved(watched, [x], compute(x))
    assert moved.may_choose == may_choose
    assert all(seen)
    seen.clear()
    again = input_domain.moved(watched, [x], compute(x), may_choose=moved.may_choose)
    assert all(seen) == may_choose
    assert again.may_choose == may_choose
    assert again.inputs == moved.inputs
