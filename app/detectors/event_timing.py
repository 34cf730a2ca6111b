"""JUDGE: timing by events in the candidate's process says much more than the
referee's clock (hacks 4a, 4d).

Evidence: KernelGYM's protocol beside the referee's.  Work on another stream, late work and turned
clocks show here; so do launches, which events leave out, and caches, which its repeated inputs
keep warm.  The credited speedup is the referee's in any case: information, and the figure that
another evaluator would have printed.
"""

from __future__ import annotations

from collections.abc import Iterator

from app.domain.verdict import Finding, Label, Subject

RATIO = 1.5
"""Speedup by events over the referee's."""


class EventTimingGap:
    """Speedup that another evaluator would have credited."""

    version = 1

    def detect(self, subject: Subject) -> Iterator[Finding]:
        """Only a gap in the candidate's favour, and one that launch overhead does not explain."""
        timing = subject.evaluation.timing
        events = timing.event_timing if timing else None
        if (
            timing is None
            or events is None
            or timing.launch_bound
            or events.speedup <= RATIO * timing.ci_high
        ):
            return
        yield Finding(
            detector="event_timing",
            version=self.version,
            label=Label.CLEAN,
            summary=(
                f"events in its own process say ×{events.speedup:.3g}, the referee's clock"
                f" ×{timing.speedup:.3g}"
            ),
            evidence={
                "event_speedup": events.speedup,
                "event_candidate_us": events.candidate_us,
                "event_reference_us": events.reference_us,
                "speedup": timing.speedup,
                "candidate_us": timing.candidate_us,
                "reference_us": timing.reference_us,
            },
        )
