"""One case of a problem by cases, as the reference's process describes it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from workers.protocol.layout import MAX_LEAVES, UnsupportedError

NAME_CHARS = 200
"""Length limit of a name that comes from a problem."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One case of a problem by cases."""

    index: int
    of: int
    """Cases of the problem."""
    name: str
    rtol: float | None = None
    atol: float | None = None
    """Its own tolerances: both or neither."""
    keywords: tuple[str, ...] = ()
    """Names of the inputs if the candidate is called with keyword arguments."""

    @classmethod
    def checked(cls, fields: dict[str, Any]) -> Case:
        """Read a case from JSON written by the reference's process.  Raises UnsupportedError."""
        index, of = int(fields["index"]), int(fields["of"])
        tolerances = [
            None if fields[name] is None else float(fields[name]) for name in ("rtol", "atol")
        ]
        fit = (
            all(each is None or 0 <= each < math.inf for each in tolerances)
            and len({*map(type, tolerances)}) == 1
        )
        if not 0 <= index < of or not fit:
            raise UnsupportedError(f"not a case: {str(fields)[:80]}")
        keywords = tuple(str(name) for name in fields["keywords"])
        if not all(name.isidentifier() for name in keywords) or len(keywords) > MAX_LEAVES:
            raise UnsupportedError(f"inputs by names that are none: {str(keywords)[:80]}")
        return cls(
            index=index,
            of=of,
            name=str(fields["name"])[:NAME_CHARS],
            rtol=tolerances[0],
            atol=tolerances[1],
            keywords=keywords,
        )
