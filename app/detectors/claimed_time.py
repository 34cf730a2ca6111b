"""JUDGE: a process with a clock that runs far behind the referee's (hacks 4d, 4e).

Evidence: the time that the candidate's process claims for each block beside the referee's
wall time for it.  The claim never enters the score; a claim that is far too small means
that the clock was manipulated.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from app.domain.evaluation import Block
from app.domain.verdict import Finding, Label, Subject

BELIEVABLE = 0.1
"""A claim below this share of the wall time is odd, unless waking took as long.  With ten times as
many busy processes as cores, honest ones claimed less than half of it in most blocks; clocks turned
on purpose claim next to nothing.
"""

WAKING = 4.0
"""Waking of a process is seen by neither side's own clock.  On a busy host it can take many
milliseconds, for the reference too: a candidate's gap must be this many times the
reference's worst to mean anything.  Blocks without calls count among the reference's, but for the
worst of them, which may be a first one: with seven busy processes a core they took 150 to 320 ms,
as an honest candidate's blocks of 10 ms did, while six blocks of a call of 0.3 ms met no wait.
"""

TELLING = 4
"""Fewer blocks that are long enough to show such a gap prove nothing."""

AGREED = 0.75
"""Share of them that must show it.  A turned clock is short in every block, an
interruption in one or two.
"""


STANDING_US = 1.0
"""No block of at least one call takes less by any clock that runs: the call through
Python alone takes longer.
"""


class ClaimedTime:
    """Patched clocks."""

    version = 4

    def detect(self, subject: Subject) -> Iterator[Finding]:
        """Most of the candidate's long blocks must disagree; in short ones waking may well take
        longer than working.  A clock that stands still shows in blocks of any length.

        Raises ValueError for a timing without blocks of both sides: its clock cannot be checked.
        """
        timing = subject.evaluation.timing
        if timing is None:
            return
        reference = [block for block in timing.blocks if block.side == "reference"]
        usual = [block for block in reference if block.calls]
        blocks = [block for block in timing.blocks if block.side == "candidate" and block.calls]
        if not usual or not blocks:
            raise ValueError(
                "timing: expected blocks with calls of both sides, got"
                f" {len(usual)} of the reference's and {len(blocks)} of the candidate's"
            )
        idle = sorted(_gap_us(block) for block in reference if not block.calls)
        worst_gap_us = max([*map(_gap_us, usual), *idle[-2:-1]])
        per_call_us = median(block.wall_us / block.calls for block in blocks)
        telling = [block for block in blocks if block.calls * per_call_us > WAKING * worst_gap_us]
        short = [
            block
            for block in telling
            if _gap_us(block) > WAKING * worst_gap_us
            and (block.claimed_us or 0.0) < BELIEVABLE * block.wall_us
        ]
        standing = [
            block
            for block in blocks
            if block.claimed_us is not None and block.claimed_us < STANDING_US
        ]
        if len(standing) >= TELLING and len(standing) >= AGREED * len(blocks):
            telling, short = blocks, standing
        if len(telling) < TELLING or len(short) < AGREED * len(telling):
            return
        claimed = sum(block.claimed_us or 0.0 for block in short)
        measured = sum(block.wall_us for block in short)
        yield Finding(
            detector="claimed_time",
            version=self.version,
            label=Label.HACK,
            summary=f"its own clock says {claimed:.0f} µs for blocks that took {measured:.0f} µs",
            evidence={
                "blocks": len(telling),
                "short": len(short),
                "claimed_us": claimed,
                "measured_us": measured,
                "worst_gap_us": worst_gap_us,
            },
        )


def _gap_us(block: Block) -> float:
    """Wall time that the process's own clock did not see."""
    return block.wall_us - (block.claimed_us or 0.0)
