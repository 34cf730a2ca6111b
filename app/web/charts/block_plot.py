"""BROWSE: time per call of every timed block: a dot for each, and the row of its table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from app.domain import fastest_third
from app.domain.evaluation import Block, Timing
from app.web import formatting
from app.web.charts.axis import ACROSS, BOTTOM, Axis, Tick, from_zero

HEIGHT = 300
"""Height in pixels."""
TOP = 12
"""Margin above the plotting area in pixels: the axis upwards has no title."""


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A timed block."""

    x: float
    y: float
    side: str
    title: str
    counts: bool
    """One of the fastest third of its side: their mean is the time per call."""


@dataclass(frozen=True, kw_only=True)
class BlockRow:
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
class Scaled:
    """Dots, ticks and lines on one scale."""

    name: str
    """`logarithmic` or `linear`."""
    dots: tuple[Dot, ...]
    y_ticks: tuple[Tick, ...]
    levels: tuple[tuple[str, float], ...]
    """Side and y of its time per call."""


@dataclass(frozen=True, kw_only=True)
class BlockPlot:
    """Time per call of each block, on a logarithmic axis and on a linear one."""

    scales: tuple[Scaled, ...]
    x_ticks: tuple[Tick, ...]
    rows: tuple[BlockRow, ...]
    not_drawn: int
    """Blocks with no calls (hand-over) or no longer than the hand-over: they have no
    place on a logarithmic axis.
    """


def plot(timing: Timing) -> BlockPlot | None:
    """Time per call (wall time less the hand-over, over calls) per block; None where
    no block can be drawn.
    """
    handover_us = min(timing.handover_us, timing.candidate_handover_us)
    rows = [
        BlockRow(
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
    counted = _counted(rows)
    drawn = [(row, place in counted) for place, row in enumerate(rows) if row.per_call_us > 0]
    if not drawn:
        return None
    last = max(row.group for row, _ in drawn)
    return BlockPlot(
        scales=tuple(_scaled(drawn, timing, last, log=log) for log in (True, False)),
        x_ticks=tuple(Tick(at=_x(group, last), label=str(group)) for group in _whole_steps(last)),
        rows=tuple(rows),
        not_drawn=len(timing.blocks) - len(drawn),
    )


def _scaled(
    drawn: Sequence[tuple[BlockRow, bool]], timing: Timing, last: int, *, log: bool
) -> Scaled:
    """`drawn`: blocks, and whether each counts; `last`: number of the last group."""
    times_us = [row.per_call_us for row, _ in drawn]
    ends = from_zero([*times_us, timing.reference_us, timing.candidate_us], log=log)
    vertical = Axis(*ends, HEIGHT - BOTTOM, TOP, log=log)
    return Scaled(
        name="logarithmic" if log else "linear",
        dots=tuple(
            _dot(row, place, last, vertical, counts=counts)
            for place, (row, counts) in enumerate(drawn)
        ),
        y_ticks=tuple(
            Tick(at=vertical(at), label=formatting.duration_us(at))
            for at in vertical.ticks_upwards()
        ),
        levels=tuple(
            (side, vertical(time_us))
            for side, time_us in (
                ("reference", timing.reference_us),
                ("candidate", timing.candidate_us),
            )
        ),
    )


def _device(block: Block) -> str:
    parts = ((block.sm_clock_mhz, "MHz"), (block.temperature_c, "°C"), (block.power_w, "W"))
    return ", ".join(f"{value:.0f} {unit}" for value, unit in parts if value is not None)


def _counted(rows: Sequence[BlockRow]) -> set[int]:
    """Places of the blocks that the estimate is the mean of, those that are not drawn included
    (workers/referee/timing/estimators.py).
    """
    found: set[int] = set()
    for side in {row.side for row in rows}:
        places = sorted(
            (row.per_call_us, place) for place, row in enumerate(rows) if row.side == side
        )
        found |= {place for _, place in places[: fastest_third.size(len(places))]}
    return found


def _dot(row: BlockRow, position: int, last: int, vertical: Axis, *, counts: bool) -> Dot:
    # Blocks of one group stand a little apart, in the order in which they ran, so
    # that dots do not hide each other.
    shift = ((position % 4) - 1.5) * min(0.2, 4 / (last + 1)) * ACROSS / (last + 1)
    per_call = (
        f"{formatting.duration_us(row.per_call_us)} per call over"
        f" {formatting.plural(row.calls, 'call')}"
    )
    title = f"group {row.group}, {row.side}: {per_call}"
    return Dot(
        x=round(_x(row.group, last) + shift, 2),
        y=vertical(row.per_call_us),
        side=row.side,
        title=title,
        counts=counts,
    )


def _x(group: int, last: int) -> float:
    return round((group + 0.5) / (last + 1) * ACROSS, 2)


def _whole_steps(last: int) -> list[int]:
    step = max(1, math.ceil((last + 1) / 10))
    return list(range(0, last + 1, step))
