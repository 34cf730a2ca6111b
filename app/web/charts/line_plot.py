"""BROWSE: line charts and stacked bars as geometry, drawn by `_plots.html` as inline
SVG with the table behind it.

Places across are percentages of the plotting area, whose margins the style sheet has: a chart is as
wide as its card and its text has one size.  Lines differ by dash and marker, bars by their order,
both by name: never by colour alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, ClassVar, Literal

from app.web.charts.axis import ACROSS, Axis, Tick, from_zero, spaced, ticked, widened

HEIGHT = 280
"""Height in pixels."""
TOP, BOTTOM = 26, 44
"""Margins of the plotting area: the y axis' title above, ticks and the x axis' title
below, in pixels.
"""
FEW = 12
"""Points of a line up to which each is marked, so that few data look like few."""
BANDS = 2
"""Intervals drawn as areas: more of them hide each other, and are in the titles of the points."""
STYLES = 6
"""Kinds of lines that the style sheet knows."""


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
    """Values at every place across, as `reading` writes them."""
    scale: str = ""
    """Name of this plot's scale where there is `other`."""
    other: LinePlot | None = None
    """The same on the other scale."""


def lines(
    series: Sequence[Series],
    *,
    x_label: str,
    y_label: str,
    x_text: Callable[[float], str] = "{:g}".format,
    y_text: Callable[[float], str] = "{:g}".format,
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
    horizontal = Axis(*widened(xs[0], xs[-1], log=log_x), 0.0, ACROSS, log=log_x)
    vertical = Axis(*(y_range or from_zero(ys, log=log_y)), HEIGHT - BOTTOM, TOP, log=log_y)
    banded = sum(any(ends is not None for ends in one.band) for one in drawn) <= BANDS
    y_ticks = vertical.ticks_upwards() if log_y else vertical.ticks()
    x_ticks = horizontal.ticks(xs)
    return LinePlot(
        lines=tuple(
            _line(
                one,
                number % STYLES,
                horizontal,
                vertical,
                (x_text, y_text),
                marks=marks,
                banded=banded,
                holds=holds,
            )
            for number, one in enumerate(drawn)
        ),
        x_ticks=tuple(spaced(ticked(x_ticks, horizontal, x_text))),
        y_ticks=tuple(ticked(y_ticks, vertical, y_text)),
        x_label=x_label,
        y_label=y_label,
        header=(x_label, *(one.name for one in series)),
        rows=tuple(_rows(series, xs, x_text, y_text)),
        reading=_reading(
            drawn,
            xs,
            horizontal,
            vertical,
            (lambda x: f"{x_label}: {x_text(x)}", y_text),
            holds=holds,
        ),
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


Stop = tuple[float, str, Sequence[tuple[int, float, str]]]
"""A place that can be pointed at: percentage across, label, and (line, pixels down,
value) of each line there.
"""


def reading(names: Sequence[str], stops: Sequence[Stop], *, holds: bool = False) -> str:
    """JSON for `static/charts.js`: names of the lines, and the stops."""
    return json.dumps(
        {"names": list(names), "stops": stops, "holds": holds},
        ensure_ascii=False,
        separators=(",", ":"),
    )


@dataclass(frozen=True, kw_only=True)
class Stack:
    """Stacked bars."""

    size: ClassVar = (HEIGHT, BOTTOM)
    layers: tuple[str, ...]
    """For each name the outline of its parts of all bars, in percent across and pixels down:
    one path in place of an element for each part, of which a chart has hundreds.
    """
    names: tuple[str, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...] = field(default=())
    reading: str = ""
    """Values of every bar, as `reading` writes them."""


def _layers(
    bars: Sequence[tuple[str, Mapping[str, int]]], names: Sequence[str], vertical: Axis
) -> tuple[str, ...]:
    """For each name the outline of its parts of the bars; they stand on those of the names
    before it.
    """
    step = ACROSS / len(bars)
    outlines: dict[str, list[str]] = {name: [] for name in names}
    for place, (_, counts) in enumerate(bars):
        below = 0
        for name in names:
            if not (number := counts.get(name, 0)):
                continue
            left, right = round(step * (place + 0.08), 2), round(step * (place + 0.92), 2)
            outlines[name].append(
                f"M{left},{vertical(below)}V{vertical(below + number)}H{right}V{vertical(below)}Z"
            )
            below += number
    return tuple("".join(each) for each in outlines.values())


def stacked(
    bars: Sequence[tuple[str, Mapping[str, int]]],
    names: Sequence[str],
    *,
    x_label: str,
    words: Callable[[str], str],
) -> Stack | None:
    """Counts of each of `names`, bar by bar; None where all are zero.  Names that
    never occur are left out.
    """
    used = [name for name in names if any(counts.get(name) for _, counts in bars)]
    most = max((sum(counts.get(name, 0) for name in used) for _, counts in bars), default=0)
    if not most:
        return None
    vertical = Axis(0.0, float(most), HEIGHT - BOTTOM, TOP)
    step = ACROSS / len(bars)
    x_ticks = [
        Tick(at=round(step * (place + 0.5), 2), label=label)
        for place, (label, _) in enumerate(bars)
    ]
    return Stack(
        layers=_layers(bars, used, vertical),
        names=tuple(words(name) for name in used),
        x_ticks=tuple(spaced(x_ticks)),
        y_ticks=tuple(Tick(at=vertical(y), label=f"{y:g}") for y in vertical.ticks(())),
        header=(x_label, *(words(name) for name in used)),
        rows=tuple((label, *(str(counts.get(name, 0)) for name in used)) for label, counts in bars),
        reading=reading(
            [words(name) for name in used],
            [
                (
                    round(step * (place + 0.5), 2),
                    label,
                    [
                        (style, 0.0, str(counts[name]))
                        for style, name in enumerate(used)
                        if counts.get(name)
                    ],
                )
                for place, (label, counts) in enumerate(bars)
            ],
        ),
    )


def shade(share: float | None, steps: int = 8) -> str:
    """Class of a heat-map cell: `heat-0` to `heat-7`, or nothing where there is no value."""
    return "" if share is None else f"heat-{min(int(share * steps), steps - 1)}"


def _line(
    series: Series,
    style: int,
    horizontal: Axis,
    vertical: Axis,
    texts: tuple[Callable[[float], str], Callable[[float], str]],
    *,
    marks: bool,
    banded: bool,
    holds: bool,
) -> Line:
    pieces: list[list[str]] = [[]]
    for x, y in series.points:
        if y is None:
            pieces.append([])
        else:
            if holds and pieces[-1]:
                pieces[-1].append(f"{horizontal(x)},{pieces[-1][-1].partition(',')[2]}")
            pieces[-1].append(f"{horizontal(x)},{vertical(y)}")
    x_text, y_text = texts
    ends_known = [
        (x, ends)
        for (x, _), ends in zip(series.points, series.band, strict=False)
        if ends is not None
    ]
    area = [f"{horizontal(x)},{vertical(high)}" for x, (_, high) in ends_known]
    area += [f"{horizontal(x)},{vertical(low)}" for x, (low, _) in reversed(ends_known)]
    return Line(
        name=series.name,
        style=style,
        paths=tuple(" ".join(piece) for piece in pieces if piece),
        marks=tuple(
            Mark(
                x=horizontal(x),
                y=vertical(y),
                title=f"{series.name}, {x_text(x)}: {y_text(y)}{_said(ends, y_text)}",
            )
            for (x, y), ends in zip_longest(series.points, series.band)
            if y is not None and (marks or len(series.points) <= FEW or _alone(series.points, x))
        ),
        area=" ".join(area) if banded and len(ends_known) > 1 else "",
        url=series.url,
    )


def _reading(
    series: Sequence[Series],
    xs: Sequence[float],
    horizontal: Axis,
    vertical: Axis,
    texts: tuple[Callable[[float], str], Callable[[float], str]],
    *,
    holds: bool,
) -> str:
    x_text, y_text = texts
    found: dict[float, list[tuple[int, float, str]]] = {x: [] for x in xs}
    for number, one in enumerate(series):
        for (x, y), ends in zip_longest(one.points, one.band):
            if y is not None:
                found[x].append((number, vertical(y), f"{y_text(y)}{_said(ends, y_text)}"))
    return reading(
        [one.name for one in series],
        [(horizontal(x), x_text(x), values) for x, values in found.items()],
        holds=holds,
    )


def _said(ends: tuple[float, float] | None, y_text: Callable[[float], str]) -> str:
    return "" if ends is None else f" (95 % CI {y_text(ends[0])} to {y_text(ends[1])})"


def _alone(points: Sequence[tuple[float, float | None]], x: float) -> bool:
    """A point with gaps on both sides, of which no line is drawn."""
    place = next(place for place, (at, _) in enumerate(points) if at == x)
    beside = (points[other][1] for other in (place - 1, place + 1) if 0 <= other < len(points))
    return all(y is None for y in beside)


def _rows(
    series: Sequence[Series],
    xs: Sequence[float],
    x_text: Callable[[float], str],
    y_text: Callable[[float], str],
) -> list[tuple[str, ...]]:
    values = [dict(one.points) for one in series]
    return [
        (x_text(x), *("–" if (y := found.get(x)) is None else y_text(y) for found in values))
        for x in xs[:: max(1, len(xs) // 60)]
    ]
