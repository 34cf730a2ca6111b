"""JUDGE, BROWSE, EXPORT: how far a figure may be off: intervals with a stored seed."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, variance

LEVEL = 0.95
"""Confidence of every interval."""
Z = NormalDist().inv_cdf((1 + LEVEL) / 2)
"""Quantile of the normal distribution for it."""
RESAMPLES = 2_000
"""Enough that the ends of a 95 % percentile interval move by less than a tenth of its width."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A confidence interval."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        """True if `value` lies in it, ends included."""
        return self.low <= value <= self.high


def wilson(count: int, of: int) -> Interval:
    """Interval of a share of independent trials; unlike the normal approximation it
    is right near 0 and 1.

    Source: E. B. Wilson, JASA 22 (1927).  0 of 100 gives [0, 3.7 %].
    """
    if not 0 <= count <= of or of < 1:
        raise ValueError(f"expected 0 ≤ count ≤ of and of ≥ 1, got {count} of {of}")
    z2 = Z**2
    share = count / of
    centre = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = math.sqrt(z2 * (share * (1 - share) + z2 / (4 * of)) / of) / (1 + z2 / of)
    low, high = max(0.0, centre - half), min(1.0, centre + half)
    return Interval(low=0.0 if count == 0 else low, high=1.0 if count == of else high)


def share_difference(ours: tuple[int, int], theirs: tuple[int, int]) -> Interval:
    """Interval of the difference of two independent shares (count, of): first minus second.

    Source: R. G. Newcombe, Statistics in Medicine 17 (1998), method 10, from Wilson's intervals."""
    one, other = (wilson(*side) for side in (ours, theirs))
    p, q = ours[0] / ours[1], theirs[0] / theirs[1]
    below = math.hypot(p - one.low, other.high - q)
    above = math.hypot(one.high - p, q - other.low)
    return Interval(low=p - q - below, high=p - q + above)


def mean_difference(ours: Sequence[float], theirs: Sequence[float]) -> Interval | None:
    """Welch's interval of the difference of two means, first minus second; None with fewer than two
    values of one, or with values all alike: attempts that share an evaluation tell no spread.
    """
    if len(ours) < 2 or len(theirs) < 2:
        return None
    errors = [variance(side) / len(side) for side in (ours, theirs)]
    spread = sum(errors)
    difference = fmean(ours) - fmean(theirs)
    if spread == 0:
        return None
    freedom = spread**2 / sum(
        error**2 / (len(side) - 1) for error, side in zip(errors, (ours, theirs), strict=True)
    )
    half = _student(freedom) * math.sqrt(spread)
    return Interval(low=difference - half, high=difference + half)


def _student(freedom: float) -> float:
    """Quantile of Student's t for a two-sided interval, by the expansion in 1/freedom of
    Abramowitz and Stegun, 26.7.5: 0.3 % off at 3 degrees, and conservative below them by
    using the exact value for 1 or 2.
    """
    z = Z
    if freedom < 2:
        return math.tan(math.pi * LEVEL / 2)
    if freedom < 3:
        return LEVEL * math.sqrt(2 / (1 - LEVEL**2))
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / freedom**power for power, term in enumerate(terms, start=1))


Scored = Sequence[tuple[float, float]]
"""Contribution of each sample of a cluster to numerator and denominator of a ratio."""


def cluster_bootstrap(
    clusters: Mapping[str, Scored],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """Interval of Σ numerators / Σ denominators: clusters are drawn with
    replacement, then samples within each.

    Samples of one problem share its difficulty, so that resampling them as if independent gives
    intervals that are too narrow.  Draws with denominators that sum to zero are left out;
    ValueError where nothing is left.
    """
    draw = random.Random(seed)  # noqa: S311 (statistics, not secrets)
    members = [list(cluster) for _, cluster in sorted(clusters.items()) if cluster]
    if all(len(cluster) == 1 for cluster in members):
        only = [cluster[0] for cluster in members]
        sums = [_summed(draw.choices(only, k=len(only))) for _ in range(resamples if only else 0)]
    else:
        sums = [_draw(members, draw) for _ in range(resamples)]
    return _percentile(_ratios(sums))


LEAST_CLUSTERS = 3
"""Clusters of an interval: with two, Student's t of one degree of freedom makes it thirteen times
as wide as their spread, for a speedup from a thousandth to billions.
"""

NO_SPREAD = 1e-12
"""Contributions to an error up to which they are the rounding error of 0."""

Sums = Mapping[str, tuple[float, float]]
"""Cluster → sums of numerators and denominators of its samples."""


def clustered_ratio(clusters: Sums) -> Interval | None:
    """Interval of Σ numerators / Σ denominators from the spread between clusters, by Student's t;
    None with fewer than LEAST_CLUSTERS, or denominators that sum to zero.

    It allows for samples of one problem being alike, as `cluster_bootstrap` does, in one pass
    over the clusters: for pages.  Source: W. G. Cochran, Sampling Techniques (1977), 6.4; E.
    Miller, arXiv 2411.00640, eq. 4.
    """
    found = _influence(clusters)
    return (
        None
        if found is None or len(found[1]) < LEAST_CLUSTERS
        else _around(found[0], list(found[1].values()))
    )


def clustered_difference(ours: Sums, theirs: Sums) -> Interval | None:
    """Interval of the difference of two ratios, first minus second, over the clusters that both
    have, so that the difficulty of a problem cancels; None with fewer than LEAST_CLUSTERS of them,
    or where all differ by as much, which would make an interval without width.
    """
    shared = ours.keys() & theirs.keys()
    one, other = (_influence({name: side[name] for name in shared}) for side in (ours, theirs))
    if one is None or other is None or len(shared) < LEAST_CLUSTERS:
        return None
    errors = [one[1][name] - other[1][name] for name in shared]
    if max(map(abs, errors)) < NO_SPREAD and one[0] != other[0]:
        return None
    return _around(one[0] - other[0], errors)


def _influence(clusters: Sums) -> tuple[float, dict[str, float]] | None:
    """The ratio, and each cluster's contribution to its error."""
    above, below = (math.fsum(sums[side] for sums in clusters.values()) for side in (0, 1))
    if len(clusters) < 2 or not below:
        return None
    ratio = above / below
    return ratio, {name: (top - ratio * bottom) / below for name, (top, bottom) in clusters.items()}


def _around(value: float, errors: Sequence[float]) -> Interval:
    count = len(errors)
    spread = math.sqrt(count / (count - 1) * math.fsum(error**2 for error in errors))
    half = _student(count - 1) * spread
    return Interval(low=value - half, high=value + half)


def _draw(members: list[list[tuple[float, float]]], draw: random.Random) -> tuple[float, float]:
    return _within(draw.choices(members, k=len(members)), draw)


def _summed(samples: list[tuple[float, float]]) -> tuple[float, float]:
    """Sums of numerators and denominators."""
    above, below = zip(*samples, strict=True)
    return sum(above), sum(below)


def _within(clusters: list[list[tuple[float, float]]], draw: random.Random) -> tuple[float, float]:
    numerator = denominator = 0.0
    for cluster in clusters:
        for above, below in draw.choices(cluster, k=len(cluster)) if len(cluster) > 1 else cluster:
            numerator += above
            denominator += below
    return numerator, denominator


def _ratios(sums: list[tuple[float, float]]) -> list[float]:
    return [above / below for above, below in sums if below]


def _percentile(values: list[float]) -> Interval:
    if not values:
        raise ValueError("expected at least one sample to resample, got none")
    ordered = sorted(values)
    tail = (1 - LEVEL) / 2
    low = ordered[math.floor(tail * (len(ordered) - 1))]
    high = ordered[math.ceil((1 - tail) * (len(ordered) - 1))]
    return Interval(low=low, high=high)
