import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.referee.timing import estimators

NOISES: dict[str, Callable[[random.Random], float]] = {
    "normal": lambda draw: draw.gauss(0, 0.01),
    "uniform": lambda draw: 0.02 * draw.random(),
    "exponential": lambda draw: draw.expovariate(50),
    "log-normal": lambda draw: 0.01 * draw.lognormvariate(0, 1),
    "one in five delayed": lambda draw: (
        draw.gauss(0, 0.003) + (draw.random() < 0.2) * draw.expovariate(5)
    ),
    "every second delayed": lambda draw: (
        draw.gauss(0, 0.003) + (draw.random() < 0.5) * draw.expovariate(5)
    ),
}
"""Noise that is added to blocks that take 1."""


def test_the_fastest_third_counts() -> None:
    found = estimators.undisturbed([9.0, 1.02, 5.0, 1.0, 1.01, 7.0])
    assert math.exp(found.centre) == pytest.approx(1.005)
    assert found.half_width == pytest.approx(estimators.FACTOR_OF_TWO * 0.01 / 1.005)
    found = estimators.undisturbed([1.03, 1.02, 1.0, 1.01, *[5.0] * 8])
    assert math.exp(found.centre) == pytest.approx(1.015)
    assert found.half_width == pytest.approx(0.03 / 1.015)


def test_one_value_is_no_interval() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        estimators.undisturbed([1.0])


@pytest.mark.parametrize("count", [4, 6, 8, 12, 14, 24, 40, 80])
@pytest.mark.parametrize("noise", NOISES)
def test_the_interval_of_a_ratio_holds_it_as_often_as_it_says(noise: str, count: int) -> None:
    draw = random.Random(f"{noise} {count}")
    held = 0
    for _ in range(1000):
        sides = [
            estimators.undisturbed([1 + NOISES[noise](draw) for _ in range(count)])
            for _ in range(2)
        ]
        found = estimators.difference(*sides)
        held += found.low <= 0.0 <= found.high
    assert held / 1000 >= 0.93  # 0.95 or more, minus sampling error (3 σ = 2 %)


@pytest.mark.parametrize("count", [12, 20, 40])
@pytest.mark.parametrize("noise", NOISES)
def test_the_median_of_groups_lies_where_it_says(noise: str, count: int) -> None:
    """Each group has the faster of two blocks of either side, on a host that changes its
    speed by two from group to group.
    """
    draw = random.Random(f"{noise} {count}")

    def group() -> float:
        faster = [min(1 + NOISES[noise](draw) for _ in range(2)) for _ in range(2)]
        return math.log(faster[0] / faster[1])

    held = sum(
        found.low <= 0.0 <= found.high
        for found in (
            estimators.median_interval([group() for _ in range(count)]) for _ in range(1000)
        )
    )
    assert held / 1000 >= 0.93


@pytest.mark.parametrize("count", range(estimators.LEAST_VALUES, 81))
def test_the_interval_of_a_median_is_the_narrowest_that_holds_it_in_95_percent(count: int) -> None:
    """Each value lies below the median of its distribution with probability ½."""

    def held(outside: int) -> float:
        return 1 - 2 * sum(math.comb(count, below) for below in range(outside + 1)) / 2**count

    found = estimators.median_interval([float(place) for place in range(count)])
    outside = round(found.low)
    assert found.high == count - 1 - outside
    assert held(outside) >= 0.95 > held(outside + 1)


def test_a_few_values_have_no_interval_of_their_median() -> None:
    with pytest.raises(ValueError, match="at least 12 values, got 11"):
        estimators.median_interval([0.0] * 11)


def test_more_groups_make_it_narrower() -> None:
    draw = random.Random(2)
    widths = [
        sum(
            estimators.median_interval([draw.gauss(0, 0.01) for _ in range(count)]).half_width
            for _ in range(300)
        )
        for count in (12, 24, 48)
    ]
    assert widths == sorted(widths, reverse=True)


def test_more_blocks_make_it_narrower() -> None:
    draw = random.Random(1)
    widths = [
        sum(
            estimators.undisturbed([1 + draw.gauss(0, 0.01) for _ in range(count)]).half_width
            for _ in range(300)
        )
        for count in (12, 24, 48, 80)
    ]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < widths[0] / 2


@given(st.lists(st.floats(1e-3, 1e6), min_size=2, max_size=60))
def test_the_centre_lies_within(values: list[float]) -> None:
    found = estimators.undisturbed(values)
    assert found.low <= found.centre <= found.high
    assert min(values) <= math.exp(found.centre) * (1 + 1e-9)
    assert math.exp(found.centre) <= max(values) * (1 + 1e-9)
