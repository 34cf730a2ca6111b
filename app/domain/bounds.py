"""Bounds of numbers: one statement of them for checks, messages, options and schemas."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Finite numbers from `low` to `high`, both included unless open."""

    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False

    def hold(self, value: float) -> bool:
        """Return whether the number is within them; False for NaN and infinity."""
        above = value > self.low if self.low_open else value >= self.low
        below = value < self.high if self.high_open else value <= self.high
        return math.isfinite(value) and above and below

    def __str__(self) -> str:
        """The numbers in words: `0 < value ≤ 1`, `at least 1`."""
        if math.isfinite(self.high):
            left, right = "<" if self.low_open else "≤", "<" if self.high_open else "≤"
            return f"{self.low:g} {left} value {right} {self.high:g}"
        if math.isfinite(self.low):
            return f"{'more than' if self.low_open else 'at least'} {self.low:g}"
        return "a finite number"


SHARE = Bounds(low=0, high=1)
POSITIVE = Bounds(low=0, low_open=True)
NOT_NEGATIVE = Bounds(low=0)
COUNT = Bounds(low=1)
ANY = Bounds()
