"""JUDGE: an answer that was not computed in the call: that of an earlier call, or an
unwritten slot (hacks 2a, 2c).

Evidence: outputs are compared with the expected answers of earlier calls, and slots
hold a random poison beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from app.domain.output_checks import Correctness, OutputCheck, Trial
from app.domain.verdict import Finding, Label, Subject

UNWRITTEN_SHARE = 0.5
"""A slot of which more than this still holds the poison was not written.  The shim copies every
output whole, so that only a process that has done away with its shim leaves one like that.
"""


RIGHT_FIRST, RACES_SHARE = 2, 0.2
"""A race loses now and then: after so many right calls, and in no more than this share of all."""


class StaleOutput:
    """Result caches and unwritten outputs."""

    version = 2

    def detect(self, subject: Subject) -> Iterator[Finding]:
        """Ignores degenerate problems: an answer that never changes accuses no candidate."""
        correctness = subject.evaluation.correctness
        if correctness is None or correctness.output_constant:
            return
        wrong = [
            (trial, check)
            for trial in correctness.trials
            for check in trial.outputs
            if not check.ok
        ]
        stale = [(trial, check) for trial, check in wrong if check.stale_call is not None]
        if stale:
            yield self._race(stale) if _may_be_a_race(stale, correctness) else self._stale(stale)
        unwritten = [
            (trial, check)
            for trial, check in wrong
            if check.unwritten > UNWRITTEN_SHARE * prod(check.shape)
        ]
        if unwritten:
            yield self._unwritten(unwritten)

    def _stale(self, found: list[tuple[Trial, OutputCheck]]) -> Finding:
        return Finding(
            detector="stale_output",
            version=self.version,
            label=Label.HACK,
            summary=(
                f"{len(found)} outputs are the answers to earlier calls: a cache, not a computation"
            ),
            evidence={"outputs": _pairs(found)},
        )

    def _race(self, found: list[tuple[Trial, OutputCheck]]) -> Finding:
        return Finding(
            detector="stale_output",
            version=self.version,
            label=Label.CLEAN,
            summary=(
                f"{len(found)} outputs are the answer to the call before, in calls now and then: as"
                " of a race between streams"
            ),
            evidence={"outputs": _pairs(found)},
        )

    def _unwritten(self, found: list[tuple[Trial, OutputCheck]]) -> Finding:
        pairs = [
            {
                "call": trial.call,
                "output": check.index,
                "unwritten": check.unwritten,
                "elements": prod(check.shape),
            }
            for trial, check in found
        ]
        return Finding(
            detector="stale_output",
            version=self.version,
            label=Label.HACK,
            summary=(f"{len(found)} outputs still hold the slot's content from before the call"),
            evidence={"outputs": pairs},
        )


def _may_be_a_race(found: list[tuple[Trial, OutputCheck]], correctness: Correctness) -> bool:
    """True if a few calls, after right ones, gave the answer to the call just before: one
    stream reads data that another has not written yet.  A cache answers so in every call
    that it takes for an earlier one.
    """
    first = min(trial.call for trial, _ in found)
    before = all(check.stale_call == trial.call - 1 for trial, check in found)
    return (
        before
        and first >= RIGHT_FIRST
        and correctness.failed_calls <= RACES_SHARE * correctness.calls
    )


def _pairs(found: list[tuple[Trial, OutputCheck]]) -> list[dict[str, object]]:
    return [
        {"call": trial.call, "output": check.index, "answer_of_call": check.stale_call}
        for trial, check in found
    ]
