"""BROWSE: line charts and stacked bars as geometry, drawn by `_plots.html` as inline SVG with the table behind it.

Places across are percentages of the plotting area, whose margins the style sheet has: a chart is as wide as its card
and its text has one size.  Lines differ by dash and marker, bars by their order, both by name: never by colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import ClassVar

ACROSS = 100.0
"""Width of the plotting area: places across are percentages of it."""
HEIGHT = 280
"""Height in pixels."""
TOP, BOTTOM = 26, 44
"""Margins of the plotting area: the y axis' title above, ticks and the x axis' title below, in pixels."""
USUAL, NARROW = 460.0, 230.0
"""Widths of the plotting area in pixels on a desk's half card and on a phone, for which ticks are spaced."""
FEW = 12
"""Points of a line up to which each is marked, so that few data look like few."""
BANDS = 2
"""Intervals drawn as areas: more of them hide each other, and are in the titles of the points."""
TICKS = 6
CHARACTER = 7.0
"""Width of a character of a label in pixels."""
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
class Tick:
    """A labelled place on an axis."""

    at: float
    label: str
    is_spare: bool = False
    """Left out on a narrow chart, where its label has no room."""


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


def lines(
    series: Sequence[Series],
    *,
    x_label: str,
    y_label: str,
    x_text: Callable[[float], str] = "{:g}".format,
    y_text: Callable[[float], str] = "{:g}".format,
    y_range: tuple[float, float] | None = None,
    log_x: bool = False,
    marks: bool = True,
) -> LinePlot | None:
    """A chart of lines; None where there is no point.  On a logarithmic axis every x is above 0."""
    xs = sorted({x for one in series for x, y in one.points if y is not None})
    ys = [y for one in series for _, y in one.points if y is not None]
    ys += [end for one in series for ends in one.band if ends is not None for end in ends]
    if not xs:
        return None
    horizontal = _Axis(*_widened(xs[0], xs[-1], log=log_x), 0.0, ACROSS, log=log_x)
    vertical = _Axis(*(y_range or _from_zero(ys)), HEIGHT - BOTTOM, TOP)
    banded = sum(any(ends is not None for ends in one.band) for one in series) <= BANDS
    return LinePlot(
        lines=tuple(
            _line(one, number % STYLES, horizontal, vertical, (x_text, y_text), marks=marks, banded=banded)
            for number, one in enumerate(series)
        ),
        x_ticks=tuple(_spaced([Tick(at=horizontal(x), label=x_text(x)) for x in horizontal.ticks(xs)])),
        y_ticks=tuple(Tick(at=vertical(y), label=y_text(y)) for y in vertical.ticks(())),
        x_label=x_label,
        y_label=y_label,
        header=(x_label, *(one.name for one in series)),
        rows=tuple(_rows(series, xs, x_text, y_text)),
    )


@dataclass(frozen=True, kw_only=True)
class Block:
    """One layer of one bar."""

    x: float
    y: float
    width: float
    height: float
    style: int
    title: str


@dataclass(frozen=True, kw_only=True)
class Stack:
    """Stacked bars."""

    size: ClassVar = (HEIGHT, BOTTOM)
    blocks: tuple[Block, ...]
    names: tuple[str, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...] = field(default=())


def stacked(
    bars: Sequence[tuple[str, Mapping[str, int]]], names: Sequence[str], *, x_label: str, words: Callable[[str], str]
) -> Stack | None:
    """Counts of each of `names`, bar by bar; None where all are zero.  Names that never occur are left out."""
    used = [name for name in names if any(counts.get(name) for _, counts in bars)]
    most = max((sum(counts.get(name, 0) for name in used) for _, counts in bars), default=0)
    if not most:
        return None
    vertical = _Axis(0.0, float(most), HEIGHT - BOTTOM, TOP)
    step = ACROSS / len(bars)
    blocks: list[Block] = []
    for place, (label, counts) in enumerate(bars):
        below = 0
        for style, name in enumerate(used):
            if not (number := counts.get(name, 0)):
                continue
            top, foot = vertical(below + number), vertical(below)
            x = round(step * (place + 0.08), 2)
            title = f"{label}: {words(name)} {number}"
            blocks.append(
                Block(x=x, y=top, width=round(step * 0.84, 2), height=round(foot - top, 2), style=style, title=title)
            )
            below += number
    return Stack(
        blocks=tuple(blocks),
        names=tuple(words(name) for name in used),
        x_ticks=tuple(
            _spaced([Tick(at=round(step * (place + 0.5), 2), label=label) for place, (label, _) in enumerate(bars)])
        ),
        y_ticks=tuple(Tick(at=vertical(y), label=f"{y:g}") for y in vertical.ticks(())),
        header=(x_label, *(words(name) for name in used)),
        rows=tuple((label, *(str(counts.get(name, 0)) for name in used)) for label, counts in bars),
    )


def shade(share: float | None, steps: int = 8) -> str:
    """Class of a heat-map cell: `heat-0` to `heat-7`, or nothing where there is no value."""
    return "" if share is None else f"heat-{min(int(share * steps), steps - 1)}"


ONE_PLACE = 1e-9
"""Values that differ by less than this share of the largest are one place on an axis."""


class _Axis:
    """Scale from values to percentages across or pixels down."""

    def __init__(self, low: float, high: float, start: float, end: float, *, log: bool = False) -> None:
        self.low, self.high, self.start, self.end, self.log = low, high, start, end, log

    def __call__(self, value: float) -> float:
        low, high, at = (math.log(x) if self.log else x for x in (self.low, self.high, value))
        return round(self.start + (at - low) / (high - low) * (self.end - self.start), 2)

    def ticks(self, values: Sequence[float]) -> list[float]:
        """Round values; or the values themselves where they are few."""
        if 0 < len(values) <= 2 * TICKS:
            return list(values)
        if self.log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            every = [m * 10.0**e for e in powers for m in (1, 2, 5)]
            return [value for value in every if self.low <= value <= self.high]
        rough = (self.high - self.low) / TICKS
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
        if values and all(value == round(value) for value in values):
            step = max(1.0, round(step))  # turns, days and steps have no halves
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(n * step, 12) for n in range(first, last + 1)]


def _spaced(ticks: Sequence[Tick]) -> list[Tick]:
    """Ticks that have room for their labels, from the left; those that have none on a narrow chart are spare."""
    kept = _roomy(ticks, USUAL)
    narrow = _roomy(kept, NARROW)
    return [replace(tick, is_spare=tick not in narrow) for tick in kept]


def _roomy(ticks: Sequence[Tick], width: float) -> list[Tick]:
    kept: list[Tick] = []
    for tick in ticks:
        characters = (len(tick.label) + len(kept[-1].label)) / 2 + 1 if kept else 0
        if not kept or (tick.at - kept[-1].at) / ACROSS * width >= CHARACTER * characters:
            kept.append(tick)
    return kept


def _widened(low: float, high: float, *, log: bool) -> tuple[float, float]:
    """An axis of a length above zero; a logarithmic one stays above 0."""
    if high - low > ONE_PLACE * max(abs(low), abs(high)):
        return low, high
    return (low * 0.9, high * 1.1) if log or low >= 1 else (low - 0.5, high + 0.5)


def _from_zero(values: Sequence[float]) -> tuple[float, float]:
    high = max(values)
    return min(0.0, min(values)), high * 1.06 if high > 0 else 1.0


def _line(
    series: Series,
    style: int,
    horizontal: _Axis,
    vertical: _Axis,
    texts: tuple[Callable[[float], str], Callable[[float], str]],
    *,
    marks: bool,
    banded: bool,
) -> Line:
    pieces: list[list[str]] = [[]]
    for x, y in series.points:
        if y is None:
            pieces.append([])
        else:
            pieces[-1].append(f"{horizontal(x)},{vertical(y)}")
    x_text, y_text = texts
    ends_known = [(x, ends) for (x, _), ends in zip(series.points, series.band, strict=False) if ends is not None]
    area = [f"{horizontal(x)},{vertical(high)}" for x, (_, high) in ends_known]
    area += [f"{horizontal(x)},{vertical(low)}" for x, (low, _) in reversed(ends_known)]
    return Line(
        name=series.name,
        style=style,
        paths=tuple(" ".join(piece) for piece in pieces if piece),
        marks=tuple(
            Mark(x=horizontal(x), y=vertical(y), title=f"{series.name}, {x_text(x)}: {y_text(y)}{_said(ends, y_text)}")
            for (x, y), ends in zip_longest(series.points, series.band)
            if y is not None and (marks or len(series.points) <= FEW or _alone(series.points, x))
        ),
        area=" ".join(area) if banded and len(ends_known) > 1 else "",
        url=series.url,
    )


def _said(ends: tuple[float, float] | None, y_text: Callable[[float], str]) -> str:
    return "" if ends is None else f" (95 % CI {y_text(ends[0])} to {y_text(ends[1])})"


def _alone(points: Sequence[tuple[float, float | None]], x: float) -> bool:
    """A point with gaps on both sides, of which no line is drawn."""
    place = next(place for place, (at, _) in enumerate(points) if at == x)
    beside = (points[other][1] for other in (place - 1, place + 1) if 0 <= other < len(points))
    return all(y is None for y in beside)


def _rows(
    series: Sequence[Series], xs: Sequence[float], x_text: Callable[[float], str], y_text: Callable[[float], str]
) -> list[tuple[str, ...]]:
    values = [dict(one.points) for one in series]
    return [
        (x_text(x), *("–" if (y := found.get(x)) is None else y_text(y) for found in values))
        for x in xs[:: max(1, len(xs) // 60)]
    ]
