"""JUDGE: the profiled call took longer than a call that was timed, so that another
call was profiled (hacks 1f, 3e).

A candidate that detects the profiler, or a dispatch mode, can run an honest kernel for it and the
library otherwise: then the profile says whose work it is of a call that does not count.  Evidence:
the device's busy time in the profiled call against the referee's time per call, which holds all
that the device does and the host's launches, too.  On the CPU device the processor's time of
interpreted kernels alone: the account slows operators down, and others may have the processor
during the one call.

On a GPU it only informs: evaluations share the device while one is profiled, and a kernel that is
interrupted for another's turn seems longer.  By how much was not measured.

It does not guard against an honest kernel that is less than twice as slow as the
library: that gains less than two.
"""

from __future__ import annotations

from collections.abc import Iterator

from app.detectors import base
from app.domain.kernel_profile import Profile
from app.domain.verdict import Finding, Label, Subject

TIMES, BEYOND_US = 2.0, 100.0
"""Multiple of the time per call, and time beyond it: caches are colder, and clocks
lower, in a call alone.
"""

TIMES_INTERPRETED, BEYOND_INTERPRETED_US = 4.0, 100_000.0
"""The same on the CPU device, where others share caches and the clock rate during the one call."""


class SlowerWhenProfiled:
    """A profile of another call than those that count."""

    version = 2

    def detect(self, subject: Subject) -> Iterator[Finding]:
        """Only where it was timed, and kernels of its own are credited by the profile."""
        evaluation = subject.evaluation
        profile, timing = evaluation.profile, evaluation.timing
        if (
            profile is None
            or timing is None
            or not evaluation.correct
            or not base.own_rows(profile)
        ):
            return
        interpreted = evaluation.environment.device_class == "cpu"
        profiled_us = _own_us(profile) if interpreted else _busy_us(profile)
        times, beyond = (
            (TIMES_INTERPRETED, BEYOND_INTERPRETED_US) if interpreted else (TIMES, BEYOND_US)
        )
        if profiled_us > times * timing.candidate_us + beyond:
            yield Finding(
                detector="slower_when_profiled",
                version=self.version,
                label=Label.SUSPECT if interpreted else Label.CLEAN,
                summary=(
                    f"the profiled call took {profiled_us:,.0f} µs on the device, a call that was"
                    f" timed {timing.candidate_us:,.0f} µs in all: the profile is of another kind"
                    " of call"
                ),
                evidence={
                    "profiled_us": profiled_us,
                    "candidate_us": timing.candidate_us,
                    "interpreted": interpreted,
                },
            )


def _busy_us(profile: Profile) -> float:
    """By the driver's account; events around a call would hold waits for the host, too."""
    return profile.device_us or 0.0 if profile.source == "profiler" else 0.0


def _own_us(profile: Profile) -> float:
    return sum(row.total_us for row in base.own_rows(profile)) / max(1, profile.calls)
