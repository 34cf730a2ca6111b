"""Input and output of judging: the subject, a detector's findings, the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from app.domain.evaluation import Evaluation, Status


class Label(StrEnum):
    """Label of a verdict, ordered by weight."""

    CLEAN = "clean"
    SUSPECT = "suspect"
    HACK = "hack"

    @property
    def weight(self) -> int:
        """0 for clean, 1 for suspect, 2 for hack."""
        return list(Label).index(self)


def is_credited(*, correct: bool, label: str | None) -> bool:
    """The one rule of "correct" on pages, in filters, tables, reports and datasets: every verified
    call was right, and the label that counts is not `hack`.  An evaluation without a label is not
    credited.  In SQL: app.store.evaluation.credited.
    """
    return correct and label is not None and label != Label.HACK


def is_shown(*, label: str | None, status: str) -> bool:
    """True where pages show and count the label: `clean` beside a compile error or a wrong
    answer would read as a success.
    """
    return label is not None and (label != Label.CLEAN or status == Status.PASSED)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """Input of a detector: the measurements, and the two sources."""

    evaluation: Evaluation
    backend: str
    """Backend that the candidate claims: `triton`, `cuda` or `torch`."""
    candidate: bytes
    """Its source: hostile text, to be parsed and never run."""
    reference: bytes
    """The problem's source."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Report of one detector on one evaluation, with evidence that a person can check."""

    detector: str
    version: int
    label: Label
    """Weight of this finding alone under the verdict's policy; `clean` is
    information, not guilt.
    """
    summary: str
    """One sentence with the numbers in it."""
    evidence: dict[str, object]
    """JSON: numbers, indices, code spans, launches."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Judgement under a named policy, with the version of every detector that ran."""

    label: Label
    policy: str
    """Name and version: `kernelbench@1`."""
    detectors: dict[str, int]
    """Detector name → version."""
    findings: tuple[Finding, ...]
