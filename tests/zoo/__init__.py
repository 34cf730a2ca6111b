"""ZOO: sample problems with honest and cheating candidates; line 1 of each states the required
outcome.

The form of that line, and how it is read, is in `app/domain/zoo.py`; how to add files, in README.md
beside this.
"""

from __future__ import annotations

from pathlib import Path

from app.domain import zoo
from app.domain.zoo import GROUPS, LABELS, STATUSES, Case, ZooError, case

__all__ = ["GROUPS", "LABELS", "ROOT", "STATUSES", "Case", "ZooError", "case", "cases", "problems"]

ROOT = Path(__file__).resolve().parent


def cases() -> list[Case]:
    """Every candidate of the zoo, by group and name.  Raises ZooError at the first malformed
    line.
    """
    return zoo.cases(ROOT)


def problems() -> list[Path]:
    """Every problem of the zoo, by name."""
    return zoo.problems(ROOT)
