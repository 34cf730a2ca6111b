"""COLLECT: quantities as feedback writes them: short, with their units."""

from __future__ import annotations

from collections.abc import Sequence

ROUNDS_TO_1000 = 999.5
"""Least number that is 1000 with three significant digits, which Python writes as `1e+03`."""


def time(us: float) -> str:
    """A time with three significant digits: `812 ns`, `137 µs`, `2.45 ms`."""
    for factor, unit in ((1e3, "ns"), (1.0, "µs"), (1e-3, "ms")):
        if us * factor < ROUNDS_TO_1000:
            return f"{us * factor:.3g} {unit}"
    return f"{_digits(us * 1e-6)} s"


def amount(value: float, unit: str) -> str:
    """An amount with a decimal prefix: `161 MB`, `2.1 GFLOP`."""
    for prefix in ("", "k", "M", "G", "T"):
        if abs(value) < ROUNDS_TO_1000 or prefix == "T":
            break
        value /= 1000
    return f"{_digits(value)} {prefix}{unit}"


def _digits(value: float) -> str:
    """Three significant digits, or all those before the point where there are more."""
    return f"{value:.3g}" if abs(value) < ROUNDS_TO_1000 else f"{value:.0f}"


def share(value: float) -> str:
    """A share of one as per cent."""
    return f"{100 * value:.0f} %" if value >= 0.01 or value == 0 else "less than 1 %"


def shape(sizes: Sequence[int]) -> str:
    """A shape: `64×256`."""
    return "×".join(str(size) for size in sizes) or "scalar"


def error(value: float) -> str:
    """A relative error: as per cent where it is large."""
    return f"{100 * value:.3g} %" if value >= 1e-3 else f"{value:.1e}"
