"""JUDGE: a reference that was slower than it ever is (hacks 4f: a baseline that was sabotaged).

Evidence: what the same reference took in earlier contests on the same device, which the referee remembers.  On a GPU
such times agree to some percent; a CPU shares its cores with others, and where the host's launching is timed, with the
host: nothing is said of either."""

from __future__ import annotations

from collections.abc import Iterator

from app.domain.verdict import Finding, Label, Subject

SLOWER = 1.5
"""So many times the usual is no clock that went down."""


class SlowReference:
    """A speedup over something that was held back."""

    version = 1

    def detect(self, subject: Subject) -> Iterator[Finding]:
        """One finding at the most."""
        timing, environment = subject.evaluation.timing, subject.evaluation.environment
        if timing is None or timing.reference_usual_us is None or timing.launch_bound:
            return
        if environment.device_class == "cpu" or timing.reference_us <= SLOWER * timing.reference_usual_us:
            return
        yield Finding(
            detector="slow_reference", version=self.version, label=Label.SUSPECT,
            summary=f"the reference took {timing.reference_us:.4g} µs a call, in earlier contests on this device "
            f"{timing.reference_usual_us:.4g} µs",
            evidence={"reference_us": timing.reference_us, "usual_us": timing.reference_usual_us},
        )  # fmt: skip
