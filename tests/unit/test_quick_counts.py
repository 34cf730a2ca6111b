"""Counts of a selection look at as many of the latest evaluations as a page has time for."""

from __future__ import annotations

import pytest

from app.store.browse.exports import QuickStage
from app.web import quick_counts

SIZES = (20_000, 100_000)


@pytest.mark.parametrize(
    ("stored", "took_s", "counted"),
    [
        (1_000_000, 0.2, [20_000, 100_000]),
        (
            1_000_000,
            quick_counts.COUNT_BUDGET_S / 4,
            [20_000],
        ),  # five times as long would be beyond the budget
        (15_000, 0.01, [20_000]),  # everything is counted already
    ],
)
def test_a_further_count_is_made_only_where_time_allows(
    stored: int, took_s: float, counted: list[int]
) -> None:
    asked: list[int] = []

    def count(latest: int) -> tuple[list[QuickStage], float]:
        asked.append(latest)
        return [QuickStage(stage="latest", rows=min(stored, latest), rule="")], took_s

    stages = quick_counts.widest(count, SIZES)
    assert asked == counted
    assert stages[0].rows == min(stored, counted[-1])


def test_the_first_count_alone_is_one_query() -> None:
    asked: list[int] = []

    def count(latest: int) -> tuple[list[QuickStage], float]:
        asked.append(latest)
        return [QuickStage(stage="latest", rows=latest, rule="")], 0.0

    quick_counts.widest(count, quick_counts.COUNTED[:1])
    assert asked == [2_000]
