"""BROWSE: comparison of two evaluations' speed, as far as their measurements allow.

Every page that calls a candidate faster, slower, better or worse than another asks `compared`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from app.domain.evaluation import Timing
from app.domain.verdict import is_credited


class ComparisonResult(StrEnum):
    """Result of a comparison."""

    A_FASTER = "A is faster"
    B_FASTER = "B is faster"
    NO_DIFFERENCE = "no difference"
    """None that these measurements could tell from noise."""


@dataclass(frozen=True, kw_only=True)
class Speed:
    """A speedup with its 95 % interval."""

    speedup: float
    ci_low: float
    ci_high: float


@dataclass(frozen=True, kw_only=True)
class Side:
    """The part of an evaluation that a comparison uses."""

    speed: Speed | None
    """None where it was not timed."""
    label: str | None
    """Label that counts; None before it is judged."""
    problem: object
    """Anything that is equal for the same problem only."""
    device_name: str
    baseline: str
    protocol: str


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """Speed of A as a multiple of B's."""

    ratio: float
    low: float
    high: float
    """95 % interval."""
    outcome: ComparisonResult


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The faster evaluation, or the reason for which no order may be stated."""

    ratio: Ratio | None
    why_not: str

    @property
    def gain(self) -> int:
        """1 where A is faster, -1 where it is slower, 0 where the intervals do not say."""
        outcome = self.ratio.outcome if self.ratio else None
        return (outcome is ComparisonResult.A_FASTER) - (outcome is ComparisonResult.B_FASTER)


def speed(timing: Timing) -> Speed:
    """The speedup of a timing."""
    return Speed(speedup=timing.speedup, ci_low=timing.ci_low, ci_high=timing.ci_high)


def ratio(a: Speed, b: Speed) -> Ratio:
    """Speedup of A over speedup of B: each candidate ran beside its own reference, so that device
    changes between the two evaluations cancel.  The intervals are independent and, on a logarithmic
    scale, nearly symmetric, so that their half-widths add in quadrature.
    """
    centre = math.log(a.speedup) - math.log(b.speedup)
    half = math.hypot(_half(a), _half(b))
    low, high = math.exp(centre - half), math.exp(centre + half)
    outcome = (
        ComparisonResult.A_FASTER
        if low > 1
        else ComparisonResult.B_FASTER
        if high < 1
        else ComparisonResult.NO_DIFFERENCE
    )
    return Ratio(ratio=math.exp(centre), low=low, high=high, outcome=outcome)


def compared(a: Side, b: Side, names: tuple[str, str] = ("A", "B")) -> Comparison:
    """The faster of two evaluations; only credited times of one problem, device,
    baseline and protocol count.

    `names`: of both, in the reason why they are not compared.
    """
    for name, side in zip(names, (a, b), strict=True):
        if side.speed is None:
            return Comparison(ratio=None, why_not=f"{name} was not timed")
        if not is_credited(
            correct=True, label=side.label
        ):  # a time is measured of right answers alone
            return Comparison(
                ratio=None, why_not=f"{name}'s time does not count: {side.label or 'not judged'}"
            )
    differing = (
        ("problems", a.problem, b.problem),
        ("devices", a.device_name, b.device_name),
        ("baselines", a.baseline, b.baseline),
        ("measurement rules", a.protocol, b.protocol),
    )
    for noun, one, other in differing:
        if one != other:
            return Comparison(ratio=None, why_not=f"they were measured on different {noun}")
    assert a.speed is not None
    assert b.speed is not None
    return Comparison(ratio=ratio(a.speed, b.speed), why_not="")


def _half(timing: Speed) -> float:
    return (math.log(timing.ci_high) - math.log(timing.ci_low)) / 2
