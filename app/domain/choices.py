"""End of an error message: the names among which a wrong one should have been."""

from __future__ import annotations

from collections.abc import Iterable


def expected(names: Iterable[str]) -> str:
    """`expected one of a, b`, or `there is none yet`."""
    listed = ", ".join(names)
    return f"expected one of {listed}" if listed else "there is none yet"
