"""JUDGE: a process that says that it is done while the device still works for it (hacks 4b, 4c).

Evidence: after each timed block the referee asks something tiny of the device, which has to wait for whatever is still
queued there; the same after the reference's blocks says how long that takes where nothing is.  What a candidate leaves
queued is missing from its time."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from app.domain.evaluation import Timing
from app.domain.verdict import Finding, Label, Subject

SHARE = 0.08
"""Of the candidate's block, what may be missing before anybody is accused …"""

LEAST_US = 100.0
"""… and no less than this, which is how far apart two processes' turns at the device may be."""

BLOCKS = 4
"""Fewer of a side say nothing."""


class DoneEarly:
    """Work behind the clock's back."""

    version = 1

    def detect(self, subject: Subject) -> Iterator[Finding]:
        """Medians over all blocks: a single one may have met somebody else's work."""
        timing = subject.evaluation.timing
        if timing is None:
            return
        reference, candidate = _settled(timing, "reference"), _settled(timing, "candidate")
        if min(len(reference), len(candidate)) < BLOCKS:
            return
        wall_us = median(block.wall_us for block in timing.blocks if block.side == "candidate" and block.calls)
        missing_us = median(candidate) - median(reference)
        if missing_us <= max(LEAST_US, SHARE * wall_us):
            return
        yield Finding(
            detector="done_early", version=self.version, label=Label.HACK,
            summary=f"the device worked on for {missing_us:.0f} µs after blocks that it said took {wall_us:.0f} µs",
            evidence={"missing_us": missing_us, "candidate_settled_us": median(candidate),
                      "reference_settled_us": median(reference), "wall_us": wall_us},
        )  # fmt: skip


def _settled(timing: Timing, side: str) -> list[float]:
    return [block.settled_us for block in timing.blocks if block.side == side and block.settled_us is not None]
