"""Timings beside the speedup over the reference by the wall clock: other baselines and other
clocks, for which no credit is given.
"""

from __future__ import annotations

from dataclasses import dataclass

ERROR_CHARS = 500
"""Characters of a reason for missing numbers that are stored."""


@dataclass(frozen=True, kw_only=True)
class BaselineTiming:
    """Another way to run the reference, timed like a candidate; or the reason that it could not
    be, which blames no candidate.
    """

    name: str
    """`compile` or `compile-max-autotune`: the reference by torch.compile."""
    speedup: float | None = None
    """Speedup of the candidate over this baseline: quotient of both speedups over
    the eager reference.
    """
    ci_low: float | None = None
    ci_high: float | None = None
    """95 % confidence interval, of both benchmarks together."""
    baseline_us: float | None = None
    """Its time per call, in the benchmark in which it was measured."""
    error: str | None = None
    """Reason for missing numbers: it does not compile, is wrong, takes too long …"""


@dataclass(frozen=True, kw_only=True)
class EventTiming:
    """The forerunner's protocol (3 warm-ups, 100 trials between two CUDA events,
    mean): testimony, labelled as such.
    """

    reference_us: float
    candidate_us: float
    speedup: float
    trials: int


@dataclass(frozen=True, kw_only=True)
class DeviceTiming:
    """The speedup by the device's own time: both sides' calls recorded as CUDA graphs and replayed
    in blocks on the referee's clock; or the reason why there is none, which counts against no
    candidate.  No credit follows from it.
    """

    reference_us: float | None = None
    """Time per call, as in Timing."""
    candidate_us: float | None = None
    speedup: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    """95 % confidence interval."""
    groups: int = 0
    calls_per_side: int = 0
    error: str | None = None
    """Reason for missing numbers: a call waits for the device, takes other streams
    than torch's, raises …
    """
