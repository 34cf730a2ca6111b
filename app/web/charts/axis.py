"""BROWSE: axes of charts: from values to places, and round ticks with room for their labels."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

ACROSS = 100.0
"""Width of the plotting area: places across are percentages of it."""
TOP, BOTTOM = 26, 44
"""Margins of a plotting area in pixels: the title of the axis upwards above it; ticks and the
title of the axis across below it.
"""
USUAL, NARROW = 460.0, 230.0
"""Widths of the plotting area in pixels on a desk's half card and on a phone, for
which ticks are spaced.
"""
TICKS = 6
"""Steps that an axis is divided into, about."""
MOST_TICKS = 8
"""Ticks of an axis upwards, with labels below each other."""
FEWEST_TICKS = 3
"""Below this many, values at even distance tell more than powers of ten."""
CHARACTER = 7.0
"""Width of a character of a label in pixels."""
ONE_PLACE = 1e-9
"""Values that differ by less than this share of the largest are one place on an axis."""


@dataclass(frozen=True, kw_only=True)
class Tick:
    """A labelled place on an axis."""

    at: float
    label: str
    is_spare: bool = False
    """Left out on a narrow chart, where its label has no room."""


class Axis:
    """Scale from values to percentages across or pixels down.  On a logarithmic one
    every value is above 0.
    """

    def __init__(
        self, low: float, high: float, start: float, end: float, *, log: bool = False
    ) -> None:
        self.low, self.high, self.start, self.end, self.log = low, high, start, end, log

    def __call__(self, value: float) -> float:
        """Place of a value."""
        low, high, at = (math.log(x) if self.log else x for x in (self.low, self.high, value))
        return round(self.start + (at - low) / (high - low) * (self.end - self.start), 2)

    def ticks(self, values: Sequence[float] = ()) -> list[float]:
        """Round values; or the values themselves where they are few."""
        if 0 < len(values) <= 2 * TICKS:
            return list(values)
        found = self._powers() if self.log else []
        return found if len(found) >= FEWEST_TICKS else self._even(values)

    def ticks_upwards(self) -> list[float]:
        """Round values with room for labels below each other."""
        found = self.ticks()
        return found[:: math.ceil(len(found) / MOST_TICKS)] if len(found) > MOST_TICKS else found

    def _powers(self) -> list[float]:
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        every = [m * 10.0**e for e in powers for m in (1, 2, 5)]
        return [value for value in every if self.low <= value <= self.high]

    def _even(self, values: Sequence[float]) -> list[float]:
        rough = (self.high - self.low) / TICKS
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
        if values and all(value == round(value) for value in values):
            step = max(1.0, round(step))  # turns, days and steps have no halves
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(n * step, 12) for n in range(first, last + 1)]


def ticked(values: Sequence[float], axis: Axis, text: Callable[[float], str]) -> list[Tick]:
    """Ticks at values; without decimals where all of them are zeros: `0 %`, `20 %`."""
    labels = [text(value).replace("-", "−", 1) if value < 0 else text(value) for value in values]
    whole = [re.sub(r"\.0+(?![0-9])", "", each) for each in labels]
    if not any("." in each for each in whole):
        labels = whole
    return [Tick(at=axis(value), label=each) for value, each in zip(values, labels, strict=True)]


def spaced(ticks: Sequence[Tick]) -> list[Tick]:
    """Ticks that have room for their labels, from the left; those that have none on
    a narrow chart are spare.
    """
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


def widened(low: float, high: float, *, log: bool) -> tuple[float, float]:
    """Ends of an axis of a length above zero; a logarithmic one stays above 0."""
    if high - low > ONE_PLACE * max(abs(low), abs(high)):
        return low, high
    return (low * 0.9, high * 1.1) if log or low >= 1 else (low - 0.5, high + 0.5)


def from_zero(values: Sequence[float], *, log: bool) -> tuple[float, float]:
    """Ends of an axis upwards: from 0, or a little below the lowest value where it
    is logarithmic.
    """
    high = max(values)
    if log:
        margin = max(1.04, (high / min(values)) ** 0.06)
        return widened(min(values) / margin, high * margin, log=True)
    return min(0.0, min(values)), high * 1.06 if high > 0 else 1.0
