"""JUDGE: a process that wrote bytes into the referee's channel that its shim would
never write (hacks 6a).

Evidence: the status `malformed_answer`.  Answers are fixed-size numbers with a running
number; a forged one is either malformed, and named here, or only claims to be done, and
then the outputs are not there.
"""

from __future__ import annotations

from collections.abc import Iterator

from app.domain.verdict import Finding, Label, Subject


class BrokenProtocol:
    """Forged results."""

    version = 1

    def detect(self, subject: Subject) -> Iterator[Finding]:
        """Only ever the candidate's doing: the shim that we put there answers well-formed."""
        error = subject.evaluation.error
        if error is None or error.kind != "malformed_answer":
            return
        yield Finding(
            detector="broken_protocol",
            version=self.version,
            label=Label.HACK,
            summary=f"it wrote into the channel to the referee: {error.message}",
            evidence={"message": error.message},
        )
