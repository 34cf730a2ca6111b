"""Intervals of differences against published values."""

from __future__ import annotations

import math

import pytest

from app.domain import intervals


@pytest.mark.parametrize(
    ("ours", "theirs", "low", "high"),
    [
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((0, 10), (0, 10), -0.2775, 0.2775),
    ],
)
def test_differences_of_shares_are_those_of_newcombes_table(
    ours: tuple[int, int], theirs: tuple[int, int], low: float, high: float
) -> None:
    found = intervals.share_difference(ours, theirs)
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-3), pytest.approx(high, abs=1e-3))


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(1, 12.706), (2, 4.303), (3, 3.182), (5, 2.571), (30, 2.042)]
)
def test_quantiles_of_student_are_those_of_tables(freedom: int, quantile: float) -> None:
    assert intervals._student(freedom) == pytest.approx(quantile, rel=0.005)


def test_two_means_differ_where_their_values_stand_apart() -> None:
    found = intervals.mean_difference([1.0, 1.1, 0.9, 1.0], [0.0, 0.1, -0.1, 0.0])
    assert found is not None
    assert found.low > 0
    half = 2.447 * math.sqrt(2 * (0.02 / 3) / 4)
    assert found.high - found.low == pytest.approx(2 * half, rel=0.01)
    assert intervals.mean_difference([1.0], [0.0, 0.1]) is None
