"""BROWSE: attempts in their order with their speedups: a mark for each, its interval,
and the best credited one so far.

Marks differ by form: a dot is clean, a ring is a suspect, a cross is a hack, a
square at the foot has no speedup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

from app.domain.verdict import Label, is_credited
from app.web import formatting
from app.web.charts.axis import ACROSS, BOTTOM, TOP, Axis, Tick, spaced, widened

HEIGHT = 190
"""Height in pixels."""
FEWEST = 2
"""Attempts below which there is nothing to compare."""
FOOT, HEAD = 0.14, 0.05
"""Room below the lowest value, for marks without a speedup, and above the highest:
shares of the axis.
"""
LEAST, MOST = 1e-4, 1e4
"""Speedups that have a place of their own; those beyond stand at the edge, with
their value in words.
"""
WIDEST = 10.0
"""Factor beyond the speedups at which an interval is cut: one of three values may
reach from 1e-9 to 1e9.
"""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One attempt, as a list or a rail shows it."""

    name: str
    tick: str
    """Label under it, shorter than its name."""
    url: str
    outcome: str
    """Status, or state of its job, in words."""
    label: str | None
    speedup: float | None
    """The measured one, credited or not."""
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class Mark:
    """An attempt as drawn."""

    x: float
    y: float
    form: str
    """`clean`, `suspect`, `hack` or `none`."""
    ends: tuple[float, float] | None
    """Places of the interval's ends, top first."""
    title: str
    url: str


@dataclass(frozen=True, kw_only=True)
class AttemptPlot:
    """The drawing; `best` is a polyline of the best credited speedup so far, empty
    where there is none.
    """

    marks: tuple[Mark, ...]
    best: str
    even: float
    """Place of 1×, the reference."""
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    size: tuple[int, int]


def plot(attempts: Sequence[Attempt]) -> AttemptPlot | None:
    """The drawing of attempts, which are in their order; None where fewer than
    FEWEST have a speedup.
    """
    speedups = [attempt.speedup for attempt in attempts if _is_ratio(attempt.speedup)]
    if len(speedups) < FEWEST:
        return None
    y = _axis(attempts, speedups)
    marks = tuple(
        _mark(attempt, _across(place, attempts), y) for place, attempt in enumerate(attempts)
    )
    ticks = [
        Tick(at=mark.x, label=attempt.tick) for mark, attempt in zip(marks, attempts, strict=True)
    ]
    return AttemptPlot(
        marks=marks,
        best=_best(attempts, y),
        even=y(1.0),
        x_ticks=tuple(spaced(ticks)),
        y_ticks=tuple(
            Tick(at=y(value), label=formatting.ratio(value)) for value in y.ticks_upwards()
        ),
        size=(HEIGHT, BOTTOM),
    )


def _axis(attempts: Sequence[Attempt], speedups: Sequence[float]) -> Axis:
    """A logarithmic axis over speedups, 1× and, within WIDEST, intervals."""
    places = [_within(speedup, LEAST, MOST) for speedup in speedups]
    least, most = min(1.0, *places), max(1.0, *places)
    ends = [end for attempt in attempts for end in (attempt.low, attempt.high) if _is_ratio(end)]
    near = [end for end in ends if least / WIDEST <= end <= most * WIDEST]
    low, high = widened(min(least, *near, least), max(most, *near, most), log=True)
    return Axis(
        low / (high / low) ** FOOT, high * (high / low) ** HEAD, HEIGHT - BOTTOM, TOP, log=True
    )


def _is_ratio(value: float | None) -> TypeGuard[float]:
    """True for values that have a logarithm; False for NaN."""
    return value is not None and value > 0


def _within(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def _across(place: int, attempts: Sequence[Attempt]) -> float:
    return round((place + 0.5) / len(attempts) * ACROSS, 2)


def _mark(attempt: Attempt, x: float, y: Axis) -> Mark:
    title = f"{attempt.name}: {attempt.outcome}"
    if attempt.label not in (None, Label.CLEAN):
        title += f", {attempt.label}"
    if not _is_ratio(attempt.speedup):
        return Mark(x=x, y=y.start, form="none", ends=None, title=title, url=attempt.url)
    title += f", {formatting.ratio(attempt.speedup)}"
    ends = None
    if _is_ratio(attempt.low) and _is_ratio(attempt.high):
        title += f" ({formatting.interval(attempt.low, attempt.high)})"
        ends = y(_within(attempt.high, y.low, y.high)), y(_within(attempt.low, y.low, y.high))
    form = attempt.label if attempt.label in (Label.HACK, Label.SUSPECT) else Label.CLEAN
    return Mark(
        x=x,
        y=y(_within(attempt.speedup, y.low, y.high)),
        form=str(form),
        ends=ends,
        title=title,
        url=attempt.url,
    )


def _best(attempts: Sequence[Attempt], y: Axis) -> str:
    points: list[str] = []
    best = 0.0
    for place, attempt in enumerate(attempts):
        if not _is_ratio(attempt.speedup) or not is_credited(correct=True, label=attempt.label):
            continue  # a time is measured of right answers alone
        credited = _within(attempt.speedup, y.low, y.high)
        if credited > best:
            if best:
                points.append(f"{_across(place, attempts)},{y(best)}")
            best = credited
            points.append(f"{_across(place, attempts)},{y(best)}")
    return " ".join([*points, f"{ACROSS},{y(best)}"]) if points else ""
