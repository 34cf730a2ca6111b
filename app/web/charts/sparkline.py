"""BROWSE: counts as a row of bars without axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One bar, in a box of height 1 from its foot."""

    x: float
    height: float
    title: str


def bars(counts: Sequence[tuple[str, int]]) -> tuple[Bar, ...]:
    """Bars of (label, count), highest = 1."""
    top = max((number for _, number in counts), default=0) or 1
    return tuple(
        Bar(x=position, height=number / top, title=f"{label}: {number}")
        for position, (label, number) in enumerate(counts)
    )
