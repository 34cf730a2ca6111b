"""BROWSE: keys and values of stored JSON (job options, evidence, settings of a run)
in words and units.

The unit of a number is the suffix of its key: `claimed_us`, `deadline_s`, `memory_bytes`.
"""

from __future__ import annotations

from collections.abc import Callable

from app.web import formatting

_SECOND_US = 1e6

UNITS: dict[str, Callable[[float], str]] = {
    "ns": lambda value: formatting.duration_us(value / 1e3),
    "us": formatting.duration_us,
    "ms": formatting.duration_ms,
    "s": lambda value: formatting.duration_us(value * _SECOND_US),
    "bytes": lambda value: formatting.size_bytes(int(value)),
    "mhz": lambda value: f"{value:.0f} MHz",
    "w": lambda value: f"{value:.0f} W",
    "c": lambda value: f"{value:.0f} °C",
}
"""Suffix of a key → number with its unit."""

RATIOS = frozenset({"speedup", "ratio", "factor", "times"})
SHARES = frozenset({"share", "coverage", "coverage_time", "coverage_count"})


def label(key: object) -> str:
    """`memory_bytes` → `Memory`: words without the unit, which stands with the value."""
    name, _, suffix = str(key).rpartition("_")
    words = (name if name and suffix in UNITS else str(key)).replace("_", " ")
    return words[:1].upper() + words[1:]


def shown(value: object, key: object = "") -> str:
    """A scalar with its unit: `72.9 ms`, `4.0 GiB`, `yes`; a list of scalars with
    commas; `–` for None and nothing.
    """
    if value is None or value == [] or value == ():
        return formatting.MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return _number(value, str(key))
    if isinstance(value, (list, tuple)):
        return ", ".join(shown(each, key) for each in value)
    return str(value)


def _number(value: float, key: str) -> str:
    if key.endswith("gb_s"):
        return f"{value:,.0f} GB/s"
    name, _, suffix = key.rpartition("_")
    if name and suffix in UNITS:
        return UNITS[suffix](value)
    if key in SHARES or suffix == "share":
        return formatting.percent(value)
    if suffix in RATIOS:
        return formatting.ratio(value)
    return formatting.count(value) if isinstance(value, int) else f"{value:.4g}"
