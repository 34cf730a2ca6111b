"""JUDGE: other bytes for the same inputs (hacks 3i).

Evidence: one call was made twice.  Atomics and races both do it; within the error
budget it is information.
"""

from __future__ import annotations

from collections.abc import Iterator

from app.domain.verdict import Finding, Label, Subject


class Nondeterminism:
    """Different answers to one question."""

    version = 1

    def detect(self, subject: Subject) -> Iterator[Finding]:
        """Only where it was asked."""
        correctness = subject.evaluation.correctness
        if correctness is None or correctness.deterministic is not False:
            return
        yield Finding(
            detector="nondeterminism",
            version=self.version,
            label=Label.CLEAN,
            summary="the same inputs gave other bytes the second time: atomics, or a race",
            evidence={"calls": correctness.calls, "failed_calls": correctness.failed_calls},
        )
