"""JUDGE: an output that changed after the candidate had said that it was done (hacks 4b, 4c).

Evidence: the referee copies every output at *done* and looks again a random while later.  The copy
is compared with the reference, so that a late write never counts; this names it.
"""

from __future__ import annotations

from collections.abc import Iterator

from app.domain.verdict import Finding, Label, Subject


class LateWrite:
    """Deferred work in threads, streams or child processes."""

    version = 1

    def detect(self, subject: Subject) -> Iterator[Finding]:
        """Any output of any stored call."""
        correctness = subject.evaluation.correctness
        trials = correctness.trials if correctness else ()
        found = [
            {"call": trial.call, "outputs": list(trial.late_writes)}
            for trial in trials
            if trial.late_writes
        ]
        if not found:
            return
        yield Finding(
            detector="late_write",
            version=self.version,
            label=Label.HACK,
            summary=(
                f"in {len(found)} of the calls outputs changed after the candidate had reported"
                " that it was done"
            ),
            evidence={"calls": found},
        )
