"""Integers that PyTorch does not define: places of equal values, and casts of no number."""

import math
from collections.abc import Callable

import pytest
import torch

from workers.shims.problem.answers import true_answer
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
        (lambda x: x.argmax(1), False),
        (lambda x: x.min(1).indices, False),
        (lambda x: torch.sort(x, dim=1, stable=True).indices, False),
        (lambda x: x.sort(1).indices, True),
        (lambda x: x.topk(1).indices, True),
        (lambda x: (x / 3.0).argmax(1), True),  # a kernel may round the quotients otherwise
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
