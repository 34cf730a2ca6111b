"""JUDGE: faster than the device can move the bytes.

Evidence: the roofline floor (every input read once and every output written once, over twice the
bandwidth that this device was seen to reach) beside the measured time.
"""

from __future__ import annotations

from collections.abc import Iterator

from app.domain.verdict import Finding, Label, Subject


class SpeedOfLight:
    """No honest call can be shorter, unless the problem ignores some of its inputs."""

    version = 3

    def detect(self, subject: Subject) -> Iterator[Finding]:
        """Suspect rather than hack: a reference with an output that depends on part of its input
        has a lower floor. Where it is known to ignore an input, or is itself faster than that, the
        floor is too high: information.
        """
        timing, correctness = subject.evaluation.timing, subject.evaluation.correctness
        if timing is None or timing.candidate_us >= timing.floor_us:
            return
        ignored = correctness.insensitive_to if correctness else ()
        yield Finding(
            detector="speed_of_light",
            version=self.version,
            label=(
                Label.CLEAN if ignored or timing.reference_us < timing.floor_us else Label.SUSPECT
            ),
            summary=(
                f"{timing.candidate_us:.3g} µs a call, but its bytes take {timing.floor_us:.3g} µs"
                " to move"
            ),
            evidence={
                "candidate_us": timing.candidate_us,
                "reference_us": timing.reference_us,
                "floor_us": timing.floor_us,
                "insensitive_to": list(ignored),
            },
        )
