"""Weights of tests from the pass matrix of candidates: ACES (arXiv 2604.03922).

A test is good if candidates that pass it score higher on the other tests than candidates that fail
it.  Nothing is known about which candidates are right.

    LOO-AUC_j(w) = P(s_i > s_k) + ½ P(s_i = s_k)    over pairs (i passes j, k fails j),
                                                    s = Σ_{l≠j} w_l B_l
    ACES-C        w_j = max(0, LOO-AUC_j(uniform) − ½) · p_j (1 − p_j),   p_j: pass rate
    ACES-O        maximise Σ_j w_j (LOO-AUC_j(w) − ½) over the simplex from ACES-C;
                  logistic for the step

The paper does not give temperature, step size and projection of ACES-O; the constants here
are choices of this module. An outcome that was not measured (None) stands as the
candidate's mean over its other tests, without the test that is held out; with a complete
matrix the definitions are the paper's.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

Row = tuple[bool | None, ...]
"""Outcomes of one candidate, a test each."""
Weights = list[float]

TIE = 1e-9
"""Scores that differ by less are equal: sums of weights in another order are."""
TEMPERATURE = 0.1
"""Scale of score differences in the logistic of ACES-O."""
STEPS = 100
"""Steps of ACES-O at most."""
LEAST_STEP = 1e-6
"""Step size at which ACES-O ends."""


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """Figures of one test."""

    measured: int
    """Candidates with an outcome."""
    pass_rate: float | None
    """None where no outcome is known."""
    loo_auc: float | None
    """None where all pass, all fail, or no other test says anything about them."""
    aces_c: float
    """Weights sum to 1, or are all 0 where no test tells candidates apart."""
    aces_o: float | None
    """None where it was not computed."""
    only_here: int
    """Candidates that fail this test and pass all others with an outcome."""


def rank(rows: Sequence[Row], *, optimise: bool = True) -> list[Ranked]:
    """Figures of every test, in the order of the columns.  Raises ValueError for
    rows of different lengths.
    """
    tests = _width(rows)
    closed = aces_c(rows)
    optimised = aces_o(rows) if optimise else [None] * tests
    areas = loo_aucs(rows)
    found = []
    for test in range(tests):
        known = [row[test] for row in rows if row[test] is not None]
        found.append(
            Ranked(
                measured=len(known),
                pass_rate=sum(map(bool, known)) / len(known) if known else None,
                loo_auc=areas[test],
                aces_c=closed[test],
                aces_o=optimised[test],
                only_here=sum(_fails_only(row, test) for row in rows),
            )
        )
    return found


def loo_aucs(rows: Sequence[Row], weights: Sequence[float] | None = None) -> list[float | None]:
    """LOO-AUC of every test under `weights`, uniform by default."""
    tests = _width(rows)
    used = [1.0 / max(1, tests)] * tests if weights is None else list(weights)
    return [_auc(pairs, used) for pairs in _pairs(rows)]


def aces_c(rows: Sequence[Row]) -> Weights:
    """Closed-form weights, summing to 1; all 0 where no test tells candidates apart."""
    found = []
    for test, area in enumerate(loo_aucs(rows)):
        known = [bool(row[test]) for row in rows if row[test] is not None]
        rate = sum(known) / len(known) if known else 0.0
        found.append(max(0.0, (0.5 if area is None else area) - 0.5) * rate * (1 - rate))
    total = sum(found)
    return [weight / total for weight in found] if total > 0 else found


def aces_o(rows: Sequence[Row], *, temperature: float = TEMPERATURE, steps: int = STEPS) -> Weights:
    """Weights by projected gradient ascent from ACES-C (from uniform ones where these are all 0).

    A step is taken only if it raises the objective, so that the result is never
    worse than the start.
    """
    weights = aces_c(rows)
    if not weights:
        return []
    if not any(weights):
        weights = [1.0 / len(weights)] * len(weights)
    pairs, size = _pairs(rows), 1.0
    value, slope = objective(pairs, weights, temperature)
    for _ in range(steps):
        while size >= LEAST_STEP:
            moved = onto_simplex(
                [weight + size * rise for weight, rise in zip(weights, slope, strict=True)]
            )
            better, next_slope = objective(pairs, moved, temperature)
            if better > value:
                weights, value, slope, size = moved, better, next_slope, 2 * size
                break
            size /= 2
        else:
            break
    return weights


Pairs = dict[tuple[float, ...], int]
"""Difference of outcomes, passing minus failing candidate, 0 at the held-out test →
pairs of candidates.
"""


def objective(
    pairs: Sequence[Pairs], weights: Sequence[float], temperature: float
) -> tuple[float, Weights]:
    """Objective of ACES-O, and its gradient."""
    value, slope = 0.0, [0.0] * len(weights)
    for test, of_test in enumerate(pairs):
        count = sum(of_test.values())
        if not count:
            continue
        area = 0.0
        for difference, number in of_test.items():
            gap = sum(weight * one for weight, one in zip(weights, difference, strict=True))
            chance = _logistic(gap / temperature)
            area += number * chance
            steep = weights[test] * number / count * chance * (1 - chance) / temperature
            for place, one in enumerate(difference):
                slope[place] += steep * one
        value += weights[test] * (area / count - 0.5)
        slope[test] += area / count - 0.5
    return value, slope


def onto_simplex(values: Sequence[float]) -> Weights:
    """Nearest point with non-negative parts that sum to 1 (Duchi et al. 2008)."""
    total, threshold = 0.0, 0.0
    for number, value in enumerate(sorted(values, reverse=True), start=1):
        total += value
        if value - (total - 1) / number > 0:
            threshold = (total - 1) / number
    return [max(0.0, value - threshold) for value in values]


def _pairs(rows: Sequence[Row]) -> list[Pairs]:
    """Pairs of every test.  Candidates with the same outcomes are counted, not repeated."""
    counts = Counter(rows)
    found = []
    for test in range(_width(rows)):
        scored = [(row[test], _others(row, test), number) for row, number in counts.items()]
        passing = [(others, number) for ok, others, number in scored if ok and others is not None]
        failing = [
            (others, number) for ok, others, number in scored if ok is False and others is not None
        ]
        of_test: Counter[tuple[float, ...]] = Counter()
        for better, times in passing:
            for worse, number in failing:
                of_test[tuple(one - other for one, other in zip(better, worse, strict=True))] += (
                    times * number
                )
        found.append(dict(of_test))
    return found


def _others(row: Row, test: int) -> tuple[float, ...] | None:
    """Outcomes with 0 at the held-out test and the mean where nothing is known; None
    where nothing else is known.
    """
    known = [bool(ok) for place, ok in enumerate(row) if place != test and ok is not None]
    if not known:
        return None
    mean = sum(known) / len(known)
    return tuple(
        0.0 if place == test else mean if ok is None else float(ok) for place, ok in enumerate(row)
    )


def _auc(pairs: Pairs, weights: Sequence[float]) -> float | None:
    count = sum(pairs.values())
    if not count:
        return None
    area = 0.0
    for difference, number in pairs.items():
        gap = sum(weight * one for weight, one in zip(weights, difference, strict=True))
        area += number * (0.5 if abs(gap) < TIE else float(gap > 0))
    return area / count


def _fails_only(row: Row, test: int) -> bool:
    others = [ok for place, ok in enumerate(row) if place != test and ok is not None]
    return row[test] is False and bool(others) and all(others)


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-value)) if value >= 0 else 1 - 1 / (1 + math.exp(value))


def _width(rows: Sequence[Row]) -> int:
    widths = {len(row) for row in rows}
    if len(widths) > 1:
        raise ValueError(f"rows: expected one length, got {sorted(widths)}")
    return widths.pop() if widths else 0
