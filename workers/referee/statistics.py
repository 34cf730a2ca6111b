"""From blocks to a speedup with a confidence interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95

_T = (12.706, 4.303, 3.182, 2.776)
"""Student's t, 97.5 %, for 1 to 4 degrees of freedom."""

RANK_FROM = 6
"""Least number of groups whose extreme order statistics hold the median with 95 % (1 − 2·0.5⁶ = 96.9 %)."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """An estimate of a log-ratio."""

    centre: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the interval's width."""
        return (self.high - self.low) / 2


def interval(values: Sequence[float]) -> Interval:
    """Median and its distribution-free 95 % interval by order statistics; with fewer than six values Student's t about
    the mean, which is wide on purpose.  Raises ValueError for fewer than two values."""
    ordered = sorted(values)
    count = len(ordered)
    if count < 2:
        raise ValueError(f"expected at least 2 values, got {count}")
    if count < RANK_FROM:
        centre = sum(ordered) / count
        spread = math.sqrt(sum((value - centre) ** 2 for value in ordered) / (count - 1))
        half = _T[count - 2] * spread / math.sqrt(count)
        return Interval(centre=centre, low=centre - half, high=centre + half)
    rank = _rank(count)
    return Interval(centre=median(ordered), low=ordered[rank], high=ordered[count - 1 - rank])


def widened(found: Interval, half_width: float) -> Interval:
    """With an independent uncertainty of another kind added in quadrature, on each side."""
    below = math.hypot(found.centre - found.low, half_width)
    above = math.hypot(found.high - found.centre, half_width)
    return Interval(centre=found.centre, low=found.centre - below, high=found.centre + above)


def difference(left: Interval, right: Interval) -> Interval:
    """Of two estimates of log-ratios that were made independently: with ratios, `left` over `right`.  What each may be
    off by is added in quadrature, on each side."""
    centre = left.centre - right.centre
    below = math.hypot(left.centre - left.low, right.high - right.centre)
    above = math.hypot(left.high - left.centre, right.centre - right.low)
    return Interval(centre=centre, low=centre - below, high=centre + above)


def _rank(count: int) -> int:
    """Largest r such that the r-th smallest and r-th largest of `count` values hold the median with 95 % (0-based).

    P(the r-th order statistic exceeds the median) = P(Binomial(count, ½) ≤ r)."""
    tail, rank = 0.0, -1
    for successes in range(count // 2):
        tail += math.comb(count, successes) / 2**count
        if tail > (1 - CONFIDENCE) / 2:
            break
        rank = successes
    return rank


def median(values: Sequence[float]) -> float:
    """Median; the mean of the two middle values where their number is even."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
