"""BROWSE: numbers with their units, for people: those of pages are rounded here, and by
app.domain.quantities where a terminal shows the same.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from app.domain.quantities import LONGEST, MISSING, figures, ratio

__all__ = [
    "MISSING",
    "ago",
    "by_numbers",
    "count",
    "duration_ms",
    "duration_us",
    "figures",
    "interval",
    "percent",
    "plural",
    "ratio",
    "reward",
    "scientific",
    "size_bytes",
    "span",
    "usd",
    "utc",
]


def duration_us(value: float | None) -> str:
    """Microseconds in the unit that reads best: `412 ns`, `57.1 µs`, `1.25 ms`, `2.50 s`."""
    if value is None:
        return MISSING
    if value == 0:
        return "0 µs"
    for limit, factor, unit in ((1, 1e3, "ns"), (1e3, 1, "µs"), (1e6, 1e-3, "ms")):
        if abs(value) < limit:
            return f"{figures(value * factor)} {unit}"
    return f"{figures(value * 1e-6)} s"


def duration_ms(value: float | None) -> str:
    """Milliseconds in the unit that reads best."""
    return MISSING if value is None else duration_us(value * 1e3)


LEAST_SHARE = 0.0005
"""Share that is 0.1 % when it is rounded to one decimal."""
NO_SHARE = 1e-9
"""Share up to which a value is the rounding error of 0."""
WIDEST = 1000.0
"""Ratio of the ends of an interval beyond which they say nothing: that of three
speedups may reach from 1e-9 to 1e9.
"""


def interval(low: float | None, high: float | None) -> str:
    """A range of speedups: `1.27–1.35×`; `wider than 1000×` for one that says nothing."""
    if low is None or high is None:
        return MISSING
    if high > WIDEST * low:
        return f"wider than {figures(WIDEST)}×"
    return f"{ratio(low).removesuffix('×')}–{ratio(high)}"


def percent(value: float | None) -> str:
    """A share of 1 as a percentage with one decimal; below 0.05 % with two digits,
    so that little is not nothing.
    """
    if value is None:
        return MISSING
    if NO_SHARE < abs(value) < LEAST_SHARE:
        return f"{100 * value:.2g} %"
    return f"{100 * value:.1f} %" if abs(value) < LONGEST else f"{100 * value:.3g} %"


def scientific(value: float | None) -> str:
    """An error figure: `3.2e-07`."""
    return MISSING if value is None else f"{value:.2g}"


def size_bytes(value: int | None) -> str:
    """Bytes in binary units: `512 B`, `4.1 KiB`."""
    if value is None:
        return MISSING
    amount = float(value)
    for unit in ("B", "KiB", "MiB"):
        if abs(amount) < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def count(value: int | None) -> str:
    """A whole number with thin spaces between thousands."""
    return MISSING if value is None else f"{value:,}".replace(",", "\u202f")


def by_numbers(name: str) -> list[tuple[str, int]]:
    """Key that sorts numbers in names by their value: 7b, 14b, 70b."""
    return [(text, int(number or 0)) for text, number in re.findall(r"(\D*)(\d*)", name)]


def reward(value: float | None) -> str:
    """A reward with three decimals, below zero with a minus sign."""
    return MISSING if value is None else f"{value:.3f}".replace("-", "−")


def usd(value: float | None) -> str:
    """US dollars: cents from a dollar on, below it hundredths of them: `$12.30`, `$0.0042`."""
    if value is None:
        return MISSING
    return f"${value:,.2f}".replace(",", "\u202f") if value >= 1 or not value else f"${value:.4f}"


def plural(value: int, one: str, many: str = "") -> str:
    """A number with its noun: `1 line`, `2 lines`."""
    return f"{count(value)} {one if value == 1 else many or one + 's'}"


def ago(moment: datetime, now: datetime | None = None) -> str:
    """Time since a moment, coarsely: `12 s ago`, `3 min ago`, `5 h ago`, `8 d ago`."""
    return f"{span((now or datetime.now(UTC)) - moment)} ago"


def span(length: timedelta) -> str:
    """A length of time in one unit; nothing is shorter than 0 s (clocks differ between hosts)."""
    seconds = max(0, int(length.total_seconds()))
    for limit, divisor, unit in ((90, 1, "s"), (5400, 60, "min"), (129_600, 3600, "h")):
        if seconds < limit:
            return f"{seconds // divisor} {unit}"
    return f"{seconds // 86_400} d"


def utc(moment: datetime) -> str:
    """The exact time in UTC, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
