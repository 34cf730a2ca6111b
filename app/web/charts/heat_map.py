"""BROWSE: shades of a heat map's cells."""

from __future__ import annotations

SHADES = 8
"""Shades that the style sheet knows."""


def shade(share: float | None) -> str:
    """Class of a cell: `heat-0` to `heat-7`; empty where there is no value."""
    return "" if share is None else f"heat-{min(int(share * SHADES), SHADES - 1)}"
