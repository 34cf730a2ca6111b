"""BROWSE: the geometry of the strip of clocks and temperatures under the timed blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.evaluation import Timing
from app.web.charts import reading
from app.web.charts.axis import ACROSS, Tick

HEIGHT = 96
"""Height in pixels."""
TOP, BOTTOM = 10, 22
"""Margins of the plotting area in pixels; it has no titles."""


@dataclass(frozen=True, kw_only=True)
class Strip:
    """The device's clock at the end of each block."""

    points: str
    """Points of a polyline."""
    reading: str
    """The clock of each block, as `reading.as_json` writes it."""
    ticks: tuple[Tick, ...]
    low_mhz: int
    high_mhz: int
    spread: float
    """(highest − lowest) / highest."""
    temperature_c: tuple[float, float] | None
    power_w: tuple[float, float] | None


def strip(timing: Timing) -> Strip | None:
    """The clocks of the blocks in their order; None where no block has one, as on a CPU."""
    read = [block for block in timing.blocks if block.calls and block.sm_clock_mhz is not None]
    if not read:
        return None
    clocks = [block.sm_clock_mhz or 0 for block in read]
    low, high = min(clocks), max(clocks)
    pad = max(5, (high - low) // 4)
    bottom, top = low - pad, high + pad

    def y(value: float) -> float:
        return round(
            HEIGHT - BOTTOM - (value - bottom) / (top - bottom) * (HEIGHT - TOP - BOTTOM), 1
        )

    places = [round((n + 0.5) / len(clocks) * ACROSS, 2) for n in range(len(clocks))]
    return Strip(
        points=" ".join(f"{x},{y(clock)}" for x, clock in zip(places, clocks, strict=True)),
        reading=reading.as_json(
            ["clock"],
            [
                (x, f"group {block.group}, {block.side}", [(0, y(clock), f"{clock} MHz")])
                for x, clock, block in zip(places, clocks, read, strict=True)
            ],
        ),
        ticks=tuple(
            Tick(at=y(value), label=f"{value} MHz") for value in dict.fromkeys((low, high))
        ),
        low_mhz=low,
        high_mhz=high,
        spread=(high - low) / high,
        temperature_c=_range([block.temperature_c for block in read]),
        power_w=_range([block.power_w for block in read]),
    )


def _range(values: Sequence[float | None]) -> tuple[float, float] | None:
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if known else None
