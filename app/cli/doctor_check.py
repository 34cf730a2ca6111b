"""The result of a check of `assay doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class CheckStatus(StrEnum):
    """Outcome of a check."""

    OK = "ok"
    WARN = "warn"
    """The item works, with a defect."""
    FAIL = "fail"
    SKIP = "skip"
    """There was nothing to look at."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One checked item."""

    name: str
    outcome: CheckStatus
    found: str
    todo: str = ""


Checks = Iterator[Check]


def judged(
    name: str, found: str, *, fail: bool = False, warn: bool = False, todo: str = ""
) -> Check:
    """The outcome of a check; `todo` is shown unless it is good."""
    outcome = CheckStatus.FAIL if fail else CheckStatus.WARN if warn else CheckStatus.OK
    return Check(name=name, outcome=outcome, found=found, todo=todo if fail or warn else "")
