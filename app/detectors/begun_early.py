"""JUDGE: a device that works when inputs have been written and the clock has not
started (hacks 2g, 4a).

No signal stops work that a process has left on the device: work behind a stream's wait for an
input begins when that is written, while the process stands still.  Evidence: before each timed
block the referee waits until the device has nothing to do, on both sides alike.  This wait,
beyond the reference's, is added to the candidate's block (workers/referee/timing/measurements.py);
this detector reports repetition.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from app.domain.evaluation import Timing
from app.domain.verdict import Finding, Label, Subject

LEAST_US = 100.0
"""Longer than before any block of the reference by so much: not a turn at the
device, and not a late thread.
"""

BLOCKS = 8
"""Least number of blocks that begin early …"""

SUSPECT_SHARE = 1 / 3
HACK_SHARE = 1 / 2
"""… and this share of all.  Contexts that others make meanwhile disturb one block in ten, of both
sides alike: four of twelve in one of a thousand honest evaluations, five in one of 144.  That eight
are the candidate's by chance, and none the reference's, is one in 256 of these.
"""


class BegunEarly:
    """Work before the clock."""

    version = 3

    def detect(self, subject: Subject) -> Iterator[Finding]:
        """Counts blocks and does not average them: a candidate may work ahead in a part of them."""
        timing = subject.evaluation.timing
        if timing is None:
            return
        reference, candidate = _before(timing, "reference"), _before(timing, "candidate")
        if min(len(reference), len(candidate)) < BLOCKS:
            return
        early = [each for each in candidate if each > max(reference) + LEAST_US]
        share = len(early) / len(candidate)
        if len(early) < BLOCKS or share < SUSPECT_SHARE:
            return
        yield Finding(
            detector="begun_early",
            version=self.version,
            label=Label.HACK if share >= HACK_SHARE else Label.SUSPECT,
            summary=(
                f"before {len(early)} of {len(candidate)} blocks the device worked, for"
                f" {median(early):.0f} µs, while the candidate stood still: before the reference's"
                f" it came to rest after {median(reference):.0f} µs"
            ),
            evidence={
                "early_blocks": len(early),
                "blocks": len(candidate),
                "candidate_before_us": median(candidate),
                "early_before_us": median(early),
                "reference_before_us": median(reference),
                "reference_longest_us": max(reference),
            },
        )


def _before(timing: Timing, side: str) -> list[float]:
    return [
        block.before_us
        for block in timing.blocks
        if block.side == side and block.before_us is not None
    ]
