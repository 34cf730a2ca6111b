"""BROWSE: comparison of two candidates' speed, as far as their measurements allow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from app.domain.evaluation import Timing


class Outcome(StrEnum):
    """Result of a comparison."""

    A_FASTER = "A is faster"
    B_FASTER = "B is faster"
    NO_DIFFERENCE = "no difference"
    """None that these measurements could tell from noise."""


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """Speed of A as a multiple of B's."""

    ratio: float
    low: float
    high: float
    """95 % interval."""
    outcome: Outcome


def ratio(a: Timing, b: Timing) -> Ratio:
    """Speedup of A over speedup of B: each candidate ran beside its own reference, so that device changes between
    the two evaluations cancels.  The intervals are independent and, on a logarithmic scale, nearly symmetric, so that
    their half-widths add in quadrature."""
    centre = math.log(a.speedup) - math.log(b.speedup)
    half = math.hypot(_half(a), _half(b))
    low, high = math.exp(centre - half), math.exp(centre + half)
    outcome = Outcome.A_FASTER if low > 1 else Outcome.B_FASTER if high < 1 else Outcome.NO_DIFFERENCE
    return Ratio(ratio=math.exp(centre), low=low, high=high, outcome=outcome)


def _half(timing: Timing) -> float:
    return (math.log(timing.ci_high) - math.log(timing.ci_low)) / 2
