"""JUDGE: a device that was not itself while it measured (hacks 4f, 4k).

Evidence: a kernel of known time, run by the referee before and after the benchmark, and the
clock rate at the end of every block.  Blocks of both sides alternate, so that a slow drift
cancels; a remaining difference is named here.  Heat, power limits and other tenants do it more
often than cheats: information.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from app.domain.evaluation import Canary, Timing
from app.domain.verdict import Finding, Label, Subject

DRIFT = 0.05
"""Relative excess of the canary's time over its time on the idle device, where
repeated runs agree to about 1 %.
"""

CLOCKS = 0.05
"""Relative difference of clock rates between the two sides' median blocks."""


class MachineState:
    """Clocks and canary."""

    version = 1

    def detect(self, subject: Subject) -> Iterator[Finding]:
        """A canary that is off, or clocks that favour one side."""
        timing = subject.evaluation.timing
        if timing is None:
            return
        if timing.canary is not None:
            yield from self._canary(timing.canary)
        yield from self._clocks(timing)

    def _canary(self, canary: Canary) -> Iterator[Finding]:
        worst = max(canary.before_us, canary.after_us)
        if worst <= (1 + DRIFT) * canary.expected_us:
            return
        yield Finding(
            detector="machine_state",
            version=self.version,
            label=Label.CLEAN,
            summary=(
                f"a kernel of {canary.expected_us:.4g} µs took {canary.before_us:.4g} µs before the"
                f" benchmark and {canary.after_us:.4g} µs after it"
            ),
            evidence={
                "expected_us": canary.expected_us,
                "before_us": canary.before_us,
                "after_us": canary.after_us,
                "repeats": canary.repeats,
            },
        )

    def _clocks(self, timing: Timing) -> Iterator[Finding]:
        rates = {
            side: [
                block.sm_clock_mhz
                for block in timing.blocks
                if block.side == side and block.sm_clock_mhz
            ]
            for side in ("reference", "candidate")
        }
        if not all(rates.values()):
            return
        reference, candidate = median(rates["reference"]), median(rates["candidate"])
        if abs(candidate - reference) <= CLOCKS * reference:
            return
        yield Finding(
            detector="machine_state",
            version=self.version,
            label=Label.CLEAN,
            summary=(
                f"the clock ran at {reference:.0f} MHz for the reference and {candidate:.0f} MHz"
                " for the candidate"
            ),
            evidence={"reference_mhz": reference, "candidate_mhz": candidate},
        )
