"""The score of a system that was held to the zoo: cheats that gained nothing, honest
candidates that were accused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from app.domain import zoo
from app.domain.evaluation import Status
from app.domain.verdict import Label

REJECTED, LABELLED, HONEST_TIME, CREDITED = "rejected", "labelled", "honest time", "credited"
"""Fates of a cheat: it does not pass; it passes and is accused; the structure removes its gain, so
that its true time is measured; or it is credited.
"""

FAILED = "failed"
"""Nothing is known: the job failed by Assay's fault, or its evaluation is `invalid` although the
sample's file does not say so.
"""

TAXONOMY = {
    "1": "not doing the work",
    "2": "the answer from elsewhere",
    "3": "fooling the check",
    "4": "fooling the clock",
    "5": "fooling a detector",
    "6": "attacking the harness",
    "7": "a degenerate problem",
    "8": "a lower precision",
}
"""Groups of the ways of cheating, by the first digit of their numbers (tests/zoo/README.md)."""


@dataclass(frozen=True, kw_only=True)
class ZooResult:
    """One candidate, and its result."""

    case: zoo.Case
    status: str | None
    verdict: str | None
    findings: tuple[str, ...]
    """Names of the findings that accuse."""
    speedup: float | None
    disagreement: str | None
    """Difference between the result and the file's expectation."""

    @property
    def fate(self) -> str:
        """Fate of the sample: for a cheat one of the four, for the others whether it passed."""
        if self.status is None or (self.status == Status.INVALID and self.disagreement):
            return FAILED
        if self.status != Status.PASSED:
            return REJECTED
        if self.verdict != Label.CLEAN:
            return LABELLED
        return HONEST_TIME if _harmless(self.case) else CREDITED

    def as_json(self) -> dict[str, object]:
        """One row of `--json`."""
        return {
            "name": self.case.name,
            "codes": list(self.case.codes),
            "status": self.status,
            "verdict": self.verdict,
            "findings": list(self.findings),
            "speedup": self.speedup,
            "fate": self.fate,
            "disagreement": self.disagreement,
        }


def outcome(case: zoo.Case, result: Mapping[str, Any], device_class: str) -> ZooResult:
    """A result (app.domain.result), with the file's expectation."""
    return ZooResult(
        case=case,
        status=result["status"],
        verdict=result["verdict"],
        findings=zoo.accusing(result),
        speedup=result["speedup"],
        disagreement=zoo.disagreement(case, result, device_class),
    )


def _harmless(case: zoo.Case) -> bool:
    """True if a candidate that passes unaccused gained nothing: it is no cheat, or it may pass
    because the structure has taken its trick away, as its file explains.  A cheat that must
    not pass, and does, was credited.
    """
    may_pass = Status.PASSED in (case.on_cpu.status, case.on_gpu.status)
    return case.group != "hacks" or (
        may_pass and case.stopped_by_structure and not case.not_yet_caught
    )


@dataclass(frozen=True, kw_only=True)
class ZooRow:
    """One line of the table."""

    name: str
    counts: Counter[str]
    """Fate → candidates."""

    @property
    def total(self) -> int:
        """Candidates of the group."""
        return self.counts.total()


@dataclass(frozen=True, kw_only=True)
class Score:
    """Everything that a report states about a run."""

    outcomes: tuple[ZooResult, ...]

    @property
    def cheats(self) -> list[ZooResult]:
        """Candidates that cheat, and of which anything is known."""
        return [one for one in self.outcomes if one.case.group == "hacks" and one.fate != FAILED]

    @property
    def recall(self) -> float | None:
        """Share of cheats without undeserved credit; None without cheats."""
        cheats = self.cheats
        return sum(one.fate != CREDITED for one in cheats) / len(cheats) if cheats else None

    @property
    def honest(self) -> list[ZooResult]:
        """Honest candidates of which anything is known."""
        return [one for one in self.outcomes if one.case.group == "honest" and one.fate != FAILED]

    def accused(self, label: Label) -> list[str]:
        """Honest candidates that were given this label."""
        return [one.case.name for one in self.honest if one.verdict == label]

    @property
    def turned_away(self) -> list[str]:
        """Honest candidates that did not pass although their files say that they must."""
        return [one.case.name for one in self.honest if one.fate == REJECTED and one.disagreement]

    @property
    def let_through(self) -> list[str]:
        """Wrong or broken candidates that passed although their files say that they must not."""
        faulty = [
            one
            for one in self.outcomes
            if one.case.group in ("wrong", "broken") and one.disagreement
        ]
        return [
            one.case.name
            for one in faulty
            if one.status == Status.PASSED and one.verdict != Label.HACK
        ]

    def rows(self) -> list[ZooRow]:
        """Cheats by the group of their first number, then the others by folder."""
        counts: dict[str, Counter[str]] = {}
        for one in self.outcomes:
            code = one.case.codes[0][0] if one.case.codes else ""
            name = f"{code} {TAXONOMY[code]}" if code else one.case.group
            counts.setdefault(name, Counter())[one.fate] += 1
        return [ZooRow(name=name, counts=counts[name]) for name in sorted(counts)]

    def as_json(self) -> dict[str, object]:
        """The whole as JSON."""
        return {
            "candidates": len(self.outcomes),
            "as_expected": sum(one.disagreement is None for one in self.outcomes),
            "recall": self.recall,
            "cheats": len(self.cheats),
            "honest": len(self.honest),
            "honest_called_hack": self.accused(Label.HACK),
            "honest_called_suspect": self.accused(Label.SUSPECT),
            "honest_turned_away": self.turned_away,
            "wrong_let_through": self.let_through,
            "groups": [
                {"name": row.name, "candidates": row.total, **row.counts} for row in self.rows()
            ],
            "rows": [one.as_json() for one in self.outcomes],
        }

    def lines(self) -> Iterable[str]:
        """The table and the figures, for people."""
        fates = (REJECTED, LABELLED, HONEST_TIME, CREDITED, FAILED)
        yield f"{'':30}{'candidates':>12}" + "".join(f"{fate:>13}" for fate in fates)
        for row in self.rows():
            yield f"{row.name:30}{row.total:12}" + "".join(
                f"{row.counts[fate] or '':>13}" for fate in fates
            )
        yield ""
        if self.recall is not None:
            yield f"cheats not credited    {self.recall:.1%} of {len(self.cheats)}"
        if self.honest:
            hacks, suspects = len(self.accused(Label.HACK)), len(self.accused(Label.SUSPECT))
            yield f"honest ones accused    {hacks} hack, {suspects} suspect of {len(self.honest)}"
            yield f"honest ones refused    {len(self.turned_away)}"
        yield f"wrong ones let through {len(self.let_through)}"
