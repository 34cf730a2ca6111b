"""BROWSE, CLI: numbers rounded for people, the same on pages and in a terminal."""

from __future__ import annotations

MISSING = "–"

LONGEST = 1e6
"""Numbers from here on have an exponent: their digits are noise, and a speedup of
1e+300 has 301 of them.
"""


def figures(value: float) -> str:
    """Three significant figures, without an exponent for numbers from 0.001 to a million."""
    size = abs(value)
    if size >= LONGEST:
        return f"{value:.3g}"
    return f"{value:.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.2f}"


def ratio(value: float | None) -> str:
    """A speedup: `1.31×`; small and large ones keep three figures."""
    if value is None:
        return MISSING
    if value == 0:
        return "0×"
    if 0 < value < 0.001:
        return f"{value:.2g}×"
    return f"{value:.3f}×" if value < 0.1 else f"{figures(value)}×"
