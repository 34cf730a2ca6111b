"""JUDGE: a problem on which a right answer proves little (hacks 7).

Evidence, about the reference alone: it gave the same outputs for inputs under different seeds; a null answer (zeros,
the mean, the answer to another call) is within tolerance; an input or a parameter was drawn anew and the output
did not move.  The fault is the problem's, and so the label is never more than suspect."""

from __future__ import annotations

from collections.abc import Iterator

from app.domain.evaluation import Correctness
from app.domain.verdict import Finding, Label, Subject


class DegenerateProblem:
    """Keeps what was easy for the wrong reason out of datasets."""

    version = 2

    def detect(self, subject: Subject) -> Iterator[Finding]:
        """Only where the candidate passed: a wrong answer is wrong on any problem."""
        correctness = subject.evaluation.correctness
        if correctness is None or not subject.evaluation.correct:
            return
        if correctness.output_constant:
            summary = "the reference gives the same answer for different inputs: a right answer proves nothing here"
            yield self._finding(Label.SUSPECT, summary, correctness)
        elif correctness.null_answers:
            nulls = ", ".join(correctness.null_answers)
            summary = f"an answer that nobody computed is within tolerance ({nulls}): a right one proves nothing"
            yield self._finding(Label.SUSPECT, summary, correctness)
        elif correctness.insensitive_to:
            names = ", ".join(correctness.insensitive_to)
            yield self._finding(Label.CLEAN, f"the reference's output does not depend on {names}", correctness)

    def _finding(self, label: Label, summary: str, correctness: Correctness) -> Finding:
        evidence: dict[str, object] = {
            "calls": correctness.calls,
            "null_answers": list(correctness.null_answers),
            "insensitive_to": list(correctness.insensitive_to),
        }
        return Finding(
            detector="degenerate_problem", version=self.version, label=label, summary=summary, evidence=evidence
        )
