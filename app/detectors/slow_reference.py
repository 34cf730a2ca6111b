"""JUDGE: a reference that was slower than it ever is (hacks 4f: a baseline that was sabotaged).

Evidence: times of the same reference in earlier benchmarks on the same device, which the referee
remembers.  On a GPU such times agree to some percent; a CPU shares its cores with others, and of
short calls the host's launching is timed: nothing is said of either.  Whether a call is
launch-bound is not asked: that is the candidate's word.  The fastest of its blocks counts: sabotage
must slow all of them, and a busy host slows some.
"""

from __future__ import annotations

from collections.abc import Iterator

from app.detectors import base
from app.domain.evaluation import Evaluation, Timing
from app.domain.verdict import Finding, Label, Subject

SLOWER = 1.7
"""Factor over the usual time that is neither a clock that went down nor a host that
launches more slowly.
"""

SHORT_US = 300.0
"""Usual times below this are mostly the host's."""


WORK_SHARE = 0.02
FLOPS_PER_US = 5e8
"""References with less work than this share of their usual time on a device of 500 TFLOP/s mostly
wait for launches, and a busy host launches many times more slowly: information then.
"""


class SlowReference:
    """A speedup over a reference that was held back."""

    version = 3

    def detect(self, subject: Subject) -> Iterator[Finding]:
        """At most one finding."""
        timing, environment = subject.evaluation.timing, subject.evaluation.environment
        if environment.device_class == "cpu" or timing is None or timing.reference_usual_us is None:
            return
        times_us = base.per_call_us(timing.blocks, "reference", timing.handover_us)
        quickest_us = min(times_us, default=timing.reference_us)
        if (
            quickest_us <= SLOWER * timing.reference_usual_us
            or timing.reference_usual_us < SHORT_US
        ):
            return
        launching = _work_us(subject.evaluation, timing) < WORK_SHARE * timing.reference_usual_us
        yield Finding(
            detector="slow_reference",
            version=self.version,
            label=Label.CLEAN if launching else Label.SUSPECT,
            summary=(
                f"the reference never took less than {quickest_us:.4g} µs a call, in earlier"
                f" contests on this device {timing.reference_usual_us:.4g} µs"
            ),
            evidence={
                "quickest_us": quickest_us,
                "reference_us": timing.reference_us,
                "usual_us": timing.reference_usual_us,
                "launch_bound": launching,
            },
        )


def _work_us(evaluation: Evaluation, timing: Timing) -> float:
    """The least that the device needs for a call, by bytes and by operations, in microseconds."""
    flops = evaluation.profile.flops if evaluation.profile else None
    return max(timing.floor_us, (flops or 0) / FLOPS_PER_US)
