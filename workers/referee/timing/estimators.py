"""Statistics from blocks to a speedup with a confidence interval."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from app.domain import fastest_third

LEAST_VALUES = 12
"""Fewest values for an interval of their median: two of them may be outliers on each side."""

TAIL = 0.025
"""Probability that an interval of 95 % leaves out on each side."""

FACTOR_OF_TWO = 6.4
"""Factor on the range of two values: Student's t for the mean of two values (12.7 / 2)."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """Confidence interval of a log-ratio."""

    centre: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the interval's width."""
        return (self.high - self.low) / 2


def undisturbed(times: Sequence[float]) -> Interval:
    """Logarithm of the undisturbed time: the mean of the fastest third, of two values at least.

    The half-width is their range times a factor chosen so that the difference of two such
    estimates contains zero in 95 % or more for normal, exponential, uniform and log-normal
    variation, and for a delay of half of the values (tests/unit/test_estimators.py).  Raises
    ValueError for fewer than two values.
    """
    if len(times) < 2:
        raise ValueError(f"expected at least 2 values, got {len(times)}")
    fastest = _fastest(times, least=2)
    mean = sum(fastest) / len(fastest)
    half = _factor(len(fastest)) * (fastest[-1] - fastest[0]) / mean
    return Interval(centre=math.log(mean), low=math.log(mean) - half, high=math.log(mean) + half)


def fastest_mean(times: Sequence[float]) -> float:
    """Mean of the fastest third, of one value at least."""
    fastest = _fastest(times, least=1)
    return sum(fastest) / len(fastest)


def _fastest(times: Sequence[float], *, least: int) -> list[float]:
    return sorted(times)[: fastest_third.size(len(times), least=least)]


def _factor(count: int) -> float:
    """Factor on the range of the fastest third: the more values, the further apart its
    ends, and the nearer its mean.
    """
    return FACTOR_OF_TWO if count == 2 else max(4 / count, 1.1 / math.sqrt(count))


def widened(found: Interval, below: float, above: float | None = None) -> Interval:
    """The interval, widened by an independent uncertainty in quadrature on each
    side; `above`: as `below` if None.
    """
    below, above = (
        math.hypot(found.centre - found.low, below),
        math.hypot(found.high - found.centre, below if above is None else above),
    )
    return Interval(centre=found.centre, low=found.centre - below, high=found.centre + above)


def difference(left: Interval, right: Interval) -> Interval:
    """Difference of two independent log-ratios: of ratios, `left` over `right`.  Their errors are
    combined in quadrature on each side.
    """
    centre = left.centre - right.centre
    below = math.hypot(left.centre - left.low, right.high - right.centre)
    above = math.hypot(left.high - left.centre, right.centre - right.low)
    return Interval(centre=centre, low=centre - below, high=centre + above)


def median_interval(values: Sequence[float]) -> Interval:
    """The median, and the two order statistics that enclose it in 95 % or more for any
    distribution of the values, so that some of them may be outliers.  Raises ValueError
    for fewer than `LEAST_VALUES`.

    Source: Hahn and Meeker, Statistical Intervals, 5.2, by the binomial distribution itself: its
    normal approximation gives 92 % for 16 and for 21 values.
    """
    if len(values) < LEAST_VALUES:
        raise ValueError(f"expected at least {LEAST_VALUES} values, got {len(values)}")
    ordered = sorted(values)
    outside = _outside(len(ordered))
    return Interval(centre=statistics.median(ordered), low=ordered[outside], high=ordered[~outside])


@cache
def _outside(count: int) -> int:
    """The most of so many values that may lie outside on each side of an interval that encloses
    the median in 95 % or more: each value lies below it with probability ½.
    """
    limit = TAIL * 2.0**count
    cumulated = itertools.accumulate(math.comb(count, below) for below in range(count))
    return sum(ways <= limit for ways in cumulated) - 1
