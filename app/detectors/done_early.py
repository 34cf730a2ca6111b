"""JUDGE: a device that goes on working when a process has said that it is done (hacks 4b, 4c).

Evidence: after each timed block the referee stops the process and asks something tiny of the
device, which has to wait for whatever is still queued there; the same after the reference's blocks
says how long that takes where nothing is. Work that a candidate leaves queued is added to its time
(workers/referee/timing/measurements.py); this detector reports repetition.

Where the device does not answer after the *reference's* blocks either, another process has kept it
busy all the time, and the reference was slowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median, quantiles

from app.domain.evaluation import Timing
from app.domain.verdict import Finding, Label, Subject

SHARE = 0.08
"""Share of the candidate's block that may be missing without a finding …"""

LEAST_US = 100.0
"""… and no less than this, which is how far apart two processes' turns at the device may be."""

BLOCKS = 4
"""Fewer of a side say nothing."""

CERTAIN_BLOCKS = 8
"""Fewer of a side accuse no candidate: the referee's own thread, which asks, is late
now and then.
"""

BUSY_US = 1000.0
"""Answer time above which work is still queued: an idle device answers in a fifth of
that (H200).
"""


class DoneEarly:
    """Work behind the clock's back."""

    version = 2

    def detect(self, subject: Subject) -> Iterator[Finding]:
        """Two sides are compared by median and lower quartile: single blocks may
        have met other processes' work.
        """
        timing = subject.evaluation.timing
        if timing is None:
            return
        reference, candidate = _settled(timing, "reference"), _settled(timing, "candidate")
        walls_us = [
            block.wall_us for block in timing.blocks if block.side == "candidate" and block.calls
        ]
        if min(len(reference), len(candidate)) < BLOCKS or not walls_us:
            return
        wall_us = median(walls_us)
        evidence: dict[str, object] = {
            "candidate_settled_us": median(candidate),
            "reference_settled_us": median(reference),
            "wall_us": wall_us,
        }
        if median(reference) > BUSY_US:
            yield Finding(
                detector="done_early",
                version=self.version,
                label=Label.SUSPECT,
                summary=(
                    f"the device was busy: it answered {median(reference):.0f} µs after the"
                    " reference's blocks"
                ),
                evidence=evidence,
            )
            return
        enough_us = max(LEAST_US, SHARE * wall_us)
        missing_us = median(candidate) - median(reference)
        if missing_us <= enough_us:
            return
        certain = (
            len(candidate) >= CERTAIN_BLOCKS
            and _quartile(candidate) - _quartile(reference) > enough_us
        )
        yield Finding(
            detector="done_early",
            version=self.version,
            label=Label.HACK if certain else Label.SUSPECT,
            summary=(
                f"the device worked on for {missing_us:.0f} µs after blocks that it said took"
                f" {wall_us:.0f} µs"
            ),
            evidence=evidence | {"missing_us": missing_us},
        )


def _quartile(values: Sequence[float]) -> float:
    return quantiles(values, n=4)[0]


def _settled(timing: Timing, side: str) -> list[float]:
    return [
        block.settled_us
        for block in timing.blocks
        if block.side == side and block.settled_us is not None
    ]
