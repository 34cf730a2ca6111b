"""JUDGE: calls that take now one time and now quite another (hacks 3e, 4h).

Evidence: time per call of the candidate's blocks.  They are cut in two where the sum of squares
within the parts is least (Otsu 1979; Jenks' natural breaks for two classes), and the cut counts as
a gap by Ashman's D (Ashman, Bird and Zepf 1994): √2·|µ₁ − µ₂| / √(σ₁² + σ₂²).  Cutting any
single-peaked sample in two gives a D of 2.7 (normal) to 3.5 (uniform), and so 6 is asked for.  A
busy host does it to the reference, too: then nothing is said.  Information.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from statistics import fmean, pvariance

from app.detectors import base
from app.domain.verdict import Finding, Label, Subject

GAP = 6.0
"""Ashman's D."""

RATIO = 1.5
"""The slower mode over the faster: less is not worth a sentence."""

BLOCKS = 12
"""Fewer prove nothing."""

SHARE = 0.2
"""Least share of blocks in the smaller mode: a few interruptions are not a mode."""


@dataclass(frozen=True, kw_only=True)
class Modes:
    """A sample cut in two."""

    fast_us: float
    slow_us: float
    separation: float
    """Ashman's D."""
    smaller_share: float


class BimodalTimes:
    """Mode switching."""

    version = 2

    def detect(self, subject: Subject) -> Iterator[Finding]:
        """Two modes in the candidate's times, one in the reference's."""
        timing = subject.evaluation.timing
        if timing is None:
            return
        handover_us = min(timing.handover_us, timing.candidate_handover_us)
        # Blocks long enough that the hand-over is the smaller part.
        blocks = [block for block in timing.blocks if block.wall_us > 2 * handover_us]
        found, usual = (
            modes(base.per_call_us(blocks, side, handover_us))
            for side in ("candidate", "reference")
        )
        if not _apart(found) or found is None or _apart(usual):
            return
        yield Finding(
            detector="bimodal_times",
            version=self.version,
            label=Label.CLEAN,
            summary=(
                f"calls take {found.fast_us:.3g} µs or {found.slow_us:.3g} µs, and little between"
            ),
            evidence={
                "fast_us": found.fast_us,
                "slow_us": found.slow_us,
                "ashman_d": min(found.separation, 1e9),
                "smaller_share": found.smaller_share,
            },
        )


def modes(times_us: Sequence[float]) -> Modes | None:
    """The best cut in two; None for a sample too small to have modes."""
    ordered = sorted(times_us)
    if len(ordered) < BLOCKS:
        return None
    before, after = _within_prefixes(ordered), _within_prefixes(ordered[::-1])
    cut = min(range(1, len(ordered)), key=lambda at: before[at - 1] + after[-at - 1])
    fast, slow = ordered[:cut], ordered[cut:]
    spread = sqrt(pvariance(fast) + pvariance(slow))
    apart = fmean(slow) - fmean(fast)
    return Modes(
        fast_us=fmean(fast),
        slow_us=fmean(slow),
        separation=sqrt(2) * apart / spread if spread else inf * (apart > 0),
        smaller_share=min(len(fast), len(slow)) / len(ordered),
    )


def _within_prefixes(values: Sequence[float]) -> list[float]:
    """Sum of squares about the mean of the first value, of the first two, and so on (Welford
    1962).
    """
    found, mean = [0.0], values[0]
    for count, value in enumerate(values[1:], 2):
        apart = value - mean
        mean += apart / count
        found.append(found[-1] + apart * (value - mean))
    return found


def _apart(found: Modes | None) -> bool:
    return (
        found is not None
        and found.separation > GAP
        and found.smaller_share >= SHARE
        and found.slow_us > RATIO * max(found.fast_us, 0.0)
    )
