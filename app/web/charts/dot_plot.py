"""BROWSE: the geometry of charts, computed here and drawn by templates as inline SVG (no script, no style)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.evaluation import Block, Timing
from app.web import formatting
from app.web.charts.line_plot import Tick

ACROSS = 100.0
"""Width of the plotting area: places across are percentages of it."""

HEIGHT = 300
"""Height of a dot plot in pixels."""

TOP, BOTTOM = 12, 44
"""Margins of its plotting area in pixels."""


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One bar of a sparkline, in a box of height 1 from its foot."""

    x: float
    height: float
    title: str


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A timed block."""

    x: float
    y: float
    side: str
    title: str
    counts: bool
    """One of the fastest third of its side; their mean is the time per call."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A timed block for the table behind the plot."""

    group: int
    side: str
    calls: int
    wall_us: float
    per_call_us: float
    device: str = ""
    """Its clock, temperature and power when the block ended, where they were read."""
    before_us: float | None = None
    """Time to come to rest before the clock, and the referee's asking."""
    settled_us: float | None = None
    """Time for which it went on working, and the referee's asking."""


@dataclass(frozen=True, kw_only=True)
class DotPlot:
    """Time per call of each block, on a logarithmic axis."""

    dots: tuple[Dot, ...]
    y_ticks: tuple[Tick, ...]
    x_ticks: tuple[Tick, ...]
    levels: tuple[tuple[str, float], ...]
    """Side and y of its time per call."""
    rows: tuple[Row, ...]
    not_drawn: int
    """Blocks with no calls (hand-over) or no longer than the hand-over: they have no place on a logarithmic axis."""


def sparkline(counts: Sequence[tuple[str, int]]) -> tuple[Bar, ...]:
    """Bars of (label, count), highest = 1."""
    top = max((number for _, number in counts), default=0) or 1
    return tuple(
        Bar(x=position, height=number / top, title=f"{label}: {number}")
        for position, (label, number) in enumerate(counts)
    )


def dot_plot(timing: Timing) -> DotPlot | None:
    """Time per call (wall time less the hand-over, over calls) per block; None where no block can be drawn."""
    handover_us = min(timing.handover_us, timing.candidate_handover_us)
    rows = [
        Row(
            group=block.group,
            side=block.side,
            calls=block.calls,
            wall_us=block.wall_us,
            per_call_us=(block.wall_us - handover_us) / block.calls,
            device=_device(block),
            before_us=block.before_us,
            settled_us=block.settled_us,
        )
        for block in timing.blocks
        if block.calls
    ]
    drawn = [row for row in rows if row.per_call_us > 0]
    if not drawn:
        return None
    scale = _LogScale(
        low=min(min(row.per_call_us for row in drawn), timing.reference_us, timing.candidate_us),
        high=max(max(row.per_call_us for row in drawn), timing.reference_us, timing.candidate_us),
    )
    last = max(row.group for row in drawn)
    counted = _fastest_third(drawn)
    return DotPlot(
        dots=tuple(_dot(row, position, last, scale, counts=position in counted) for position, row in enumerate(drawn)),
        y_ticks=tuple(Tick(at=scale.y(value), label=formatting.duration_us(value)) for value in scale.ticks()),
        x_ticks=tuple(Tick(at=_x(group, last), label=str(group)) for group in _whole_steps(last)),
        levels=(("reference", scale.y(timing.reference_us)), ("candidate", scale.y(timing.candidate_us))),
        rows=tuple(rows),
        not_drawn=len(timing.blocks) - len(drawn),
    )


def _device(block: Block) -> str:
    parts = ((block.sm_clock_mhz, "MHz"), (block.temperature_c, "°C"), (block.power_w, "W"))
    return ", ".join(f"{value:.0f} {unit}" for value, unit in parts if value is not None)


def _fastest_third(rows: Sequence[Row]) -> set[int]:
    """Places of the blocks that the estimate is the mean of (workers/referee/timing/estimators.py)."""
    found: set[int] = set()
    for side in {row.side for row in rows}:
        places = sorted((row.per_call_us, place) for place, row in enumerate(rows) if row.side == side)
        found |= {place for _, place in places[: max(2, len(places) // 3)]}
    return found


def _dot(row: Row, position: int, last: int, scale: _LogScale, *, counts: bool) -> Dot:
    # Blocks of one group stand a little apart, in the order in which they ran, so that dots do not hide each other.
    shift = ((position % 4) - 1.5) * min(0.2, 4 / (last + 1)) * ACROSS / (last + 1)
    title = f"group {row.group}, {row.side}: {formatting.duration_us(row.per_call_us)} per call over {row.calls} calls"
    return Dot(
        x=round(_x(row.group, last) + shift, 2), y=scale.y(row.per_call_us), side=row.side, title=title, counts=counts
    )


def _x(group: int, last: int) -> float:
    return round((group + 0.5) / (last + 1) * ACROSS, 2)


def _whole_steps(last: int) -> list[int]:
    step = max(1, math.ceil((last + 1) / 10))
    return list(range(0, last + 1, step))


class _LogScale:
    """A logarithmic vertical axis with ticks at 1, 2 and 5 times powers of ten."""

    def __init__(self, low: float, high: float) -> None:
        margin = max(1.04, (high / low) ** 0.06)
        self.low, self.high = low / margin, high * margin

    def y(self, value: float) -> float:
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 1)

    def ticks(self) -> list[float]:
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        decades = [m * 10.0**e for e in range(first, last + 1) for m in (1, 2, 5)]
        inside = [value for value in decades if self.low <= value <= self.high]
        if len(inside) > 7:
            return inside[:: math.ceil(len(inside) / 7)]
        return inside if len(inside) >= 3 else self._even_ticks()

    def _even_ticks(self) -> list[float]:
        """Over less than a decade round values at even distance tell more than powers of ten."""
        rough = (self.high - self.low) / 5
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough)
        return [n * step for n in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]
