"""The worst element of a wrong output: index in the output's shape, expected and given value."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from app.domain.output_checks import Element  # noqa: E402
from workers.referee.comparison import largest_excess  # noqa: E402


def test_the_largest_difference_has_its_index_in_the_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = torch.zeros(24, dtype=torch.float64)
    got = expected.float()
    got[17], got[3] = 2.5, -1.0
    for at_once in (1 << 24, 5):
        monkeypatch.setattr(largest_excess, "AT_ONCE", at_once)
        found = largest_excess.element(got, expected, (2, 3, 4), None)
        assert found == Element(index=(1, 1, 1), expected="0", got="2.5")


def test_a_tolerance_decides_by_the_excess() -> None:
    expected = torch.tensor([100.0, 1.0], dtype=torch.float64)
    got = torch.tensor([104.0, 2.0])
    assert largest_excess.element(got, expected, (2,), None).index == (0,)
    assert largest_excess.element(got, expected, (2,), (0.1, 0.0)).index == (1,)


def test_what_is_finite_on_one_side_only_comes_first() -> None:
    expected = torch.tensor([math.nan, 1.0, 5.0], dtype=torch.float64)
    got = torch.tensor([math.nan, math.inf, 90.0])
    assert largest_excess.element(got, expected, (3,), None) == Element(
        index=(1,), expected="1", got="inf"
    )


def test_whole_numbers_truth_values_and_scalars() -> None:
    whole = largest_excess.element(torch.tensor([1, 2, 7]), torch.tensor([1, 2, 3]), (3,), None)
    assert whole == Element(index=(2,), expected="3", got="7")
    truth = largest_excess.element(
        torch.tensor([True, False]), torch.tensor([True, True]), (2,), None
    )
    assert truth == Element(index=(1,), expected="True", got="False")
    scalar = largest_excess.element(
        torch.tensor([1.5]), torch.tensor([1.0], dtype=torch.float64), (), None
    )
    assert scalar == Element(index=(), expected="1", got="1.5")


def test_equal_outputs_have_none() -> None:
    same = torch.tensor([1.0, math.inf, math.nan])
    assert largest_excess.element(same, same.double(), (3,), None) is None
    assert largest_excess.element(same[:0], same[:0].double(), (0,), None) is None
