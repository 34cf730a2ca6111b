"""BROWSE: line charts as geometry, drawn by `_plots.html` as inline SVG with the table behind it.

Places across are percentages of the plotting area, whose margins the style sheet has: a chart is as
wide as its card and its text has one size.  Lines differ by dash, marker and name: never by colour
alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, ClassVar, Literal

from app.web.charts import reading
from app.web.charts.axis import (
    ACROSS,
    BOTTOM,
    TOP,
    Axis,
    Tick,
    from_zero,
    spaced,
    ticked,
    widened,
)

HEIGHT = 280
"""Height in pixels."""
FEW = 12
"""Points of a line up to which each is marked, so that few data look like few."""
BANDS = 2
"""Intervals drawn as areas: more of them hide each other, and are in the titles of the points."""
STYLES = 6
"""Kinds of lines that the style sheet knows."""
TABLE_ROWS = 60
"""Rows of the table behind a chart, about: of more places across every second one, or fewer."""

Text = Callable[[float], str]
"""A value as shown."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """One line: (x, y) in ascending x; y None leaves a gap."""

    name: str
    points: Sequence[tuple[float, float | None]]
    band: Sequence[tuple[float, float] | None] = ()
    """(low, high) for each point, where there is an interval."""
    url: str | None = None
    """Link of its name."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """One point, to be pointed at."""

    x: float
    y: float
    title: str


@dataclass(frozen=True, kw_only=True)
class Line:
    """A series as drawn."""

    name: str
    style: int
    paths: tuple[str, ...]
    marks: tuple[Mark, ...]
    area: str
    """Polygon of the interval; empty without one."""
    url: str | None


@dataclass(frozen=True, kw_only=True)
class LinePlot:
    """Everything that the template draws."""

    size: ClassVar = (HEIGHT, BOTTOM)
    lines: tuple[Line, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    x_label: str
    y_label: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """The table behind it."""
    reading: str
    """Values at every place across, as `reading.as_json` writes them."""
    scale: str = ""
    """Name of this plot's scale where there is `other`."""
    other: LinePlot | None = None
    """The same on the other scale."""


def lines(
    series: Sequence[Series],
    *,
    x_label: str,
    y_label: str,
    x_text: Text = "{:g}".format,
    y_text: Text = "{:g}".format,
    y_range: tuple[float, float] | None = None,
    log_x: bool = False,
    log_y: bool = False,
    marks: bool = True,
    holds: bool = False,
) -> LinePlot | None:
    """A chart of lines; None where there is no point.  Values that have no place on their axis,
    as NaN and on a logarithmic one 0, are gaps.  `holds`: a value is that of all x up to the
    next point, as of a distribution.
    """
    drawn = [_drawable(one, log_x=log_x, log_y=log_y) for one in series]
    xs = sorted({x for one in drawn for x, y in one.points if y is not None})
    ys = [y for one in drawn for _, y in one.points if y is not None]
    ys += [end for one in drawn for ends in one.band if ends is not None for end in ends]
    if not xs:
        return None
    axes = _Axes(
        x=Axis(*widened(xs[0], xs[-1], log=log_x), 0.0, ACROSS, log=log_x),
        y=Axis(*(y_range or from_zero(ys, log=log_y)), HEIGHT - BOTTOM, TOP, log=log_y),
        x_text=x_text,
        y_text=y_text,
    )
    banded = sum(any(ends is not None for ends in one.band) for one in drawn) <= BANDS
    y_ticks = axes.y.ticks_upwards() if log_y else axes.y.ticks()
    return LinePlot(
        lines=tuple(
            _line(one, number % STYLES, axes, marks=marks, banded=banded, holds=holds)
            for number, one in enumerate(drawn)
        ),
        x_ticks=tuple(spaced(ticked(axes.x.ticks(xs), axes.x, x_text))),
        y_ticks=tuple(ticked(y_ticks, axes.y, y_text)),
        x_label=x_label,
        y_label=y_label,
        header=(x_label, *(one.name for one in series)),
        rows=tuple(_rows(series, xs, axes)),
        reading=_reading(drawn, xs, axes, x_label, holds=holds),
    )


def on_both_scales(
    series: Sequence[Series], axis: Literal["x", "y"], **options: Any
) -> LinePlot | None:
    """`lines` with these options, and the same with the other scale on one axis to switch to."""
    name = f"log_{axis}"
    is_log = bool(options.get(name))
    usual, other = lines(series, **options), lines(series, **(options | {name: not is_log}))
    if usual is None or other is None:
        return usual
    here, there = ("logarithmic", "linear") if is_log else ("linear", "logarithmic")
    return replace(usual, scale=here, other=replace(other, scale=there))


def _drawable(series: Series, *, log_x: bool, log_y: bool) -> Series:
    """The series without values that its axes have no place for."""

    def has_place(value: float, log: bool) -> bool:
        return math.isfinite(value) and (value > 0 or not log)

    points, band = [], []
    for (x, y), ends in zip_longest(series.points, series.band):
        if has_place(x, log_x):
            points.append((x, y if y is not None and has_place(y, log_y) else None))
            band.append(
                ends if ends is not None and all(has_place(end, log_y) for end in ends) else None
            )
    return replace(series, points=points, band=band)


@dataclass(frozen=True, kw_only=True)
class _Axes:
    """Both axes, and how values on them are shown."""

    x: Axis
    y: Axis
    x_text: Text
    y_text: Text

    def point(self, x: float, y: float) -> str:
        """A value as a point of a polyline."""
        return f"{self.x(x)},{self.y(y)}"


def _line(
    series: Series, style: int, axes: _Axes, *, marks: bool, banded: bool, holds: bool
) -> Line:
    """A series as drawn, with marks at all points, or only where there are few or no line."""
    return Line(
        name=series.name,
        style=style,
        paths=_paths(series, axes, holds=holds),
        marks=tuple(
            Mark(
                x=axes.x(x),
                y=axes.y(y),
                title=f"{series.name}, {axes.x_text(x)}: {axes.y_text(y)}{_said(ends, axes)}",
            )
            for (x, y), ends in zip_longest(series.points, series.band)
            if y is not None and (marks or len(series.points) <= FEW or _alone(series.points, x))
        ),
        area=_area(series, axes) if banded else "",
        url=series.url,
    )


def _paths(series: Series, axes: _Axes, *, holds: bool) -> tuple[str, ...]:
    """Polylines between the gaps of a series; steps where a value `holds`."""
    pieces: list[list[str]] = [[]]
    before = 0.0
    for x, y in series.points:
        if y is None:
            pieces.append([])
            continue
        if holds and pieces[-1]:
            pieces[-1].append(axes.point(x, before))
        pieces[-1].append(axes.point(x, y))
        before = y
    return tuple(" ".join(piece) for piece in pieces if piece)


def _area(series: Series, axes: _Axes) -> str:
    """Polygon of the intervals: their upper ends from the left, then the lower ones back."""
    known = [
        (x, ends)
        for (x, _), ends in zip(series.points, series.band, strict=False)
        if ends is not None
    ]
    if len(known) < 2:
        return ""
    upper = [axes.point(x, high) for x, (_, high) in known]
    lower = [axes.point(x, low) for x, (low, _) in reversed(known)]
    return " ".join([*upper, *lower])


def _reading(
    series: Sequence[Series], xs: Sequence[float], axes: _Axes, x_label: str, *, holds: bool
) -> str:
    found: dict[float, list[tuple[int, float, str]]] = {x: [] for x in xs}
    for number, one in enumerate(series):
        for (x, y), ends in zip_longest(one.points, one.band):
            if y is not None:
                found[x].append((number, axes.y(y), f"{axes.y_text(y)}{_said(ends, axes)}"))
    return reading.as_json(
        [one.name for one in series],
        [(axes.x(x), f"{x_label}: {axes.x_text(x)}", values) for x, values in found.items()],
        holds=holds,
    )


def _said(ends: tuple[float, float] | None, axes: _Axes) -> str:
    return "" if ends is None else f" (95 % CI {axes.y_text(ends[0])} to {axes.y_text(ends[1])})"


def _alone(points: Sequence[tuple[float, float | None]], x: float) -> bool:
    """A point with gaps on both sides, of which no line is drawn."""
    place = next(place for place, (at, _) in enumerate(points) if at == x)
    beside = (points[other][1] for other in (place - 1, place + 1) if 0 <= other < len(points))
    return all(y is None for y in beside)


def _rows(series: Sequence[Series], xs: Sequence[float], axes: _Axes) -> list[tuple[str, ...]]:
    values = [dict(one.points) for one in series]
    return [
        (
            axes.x_text(x),
            *("–" if (y := found.get(x)) is None else axes.y_text(y) for found in values),
        )
        for x in xs[:: max(1, len(xs) // TABLE_ROWS)]
    ]
