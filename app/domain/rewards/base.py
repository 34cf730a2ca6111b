"""JUDGE: interface of rewards: measures and options in, parts out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields

COVERAGES = ("time_coverage", "number_coverage")


class UnknownRewardError(ValueError):
    """No reward of that name, or an option that it does not have."""


@dataclass(frozen=True, kw_only=True)
class Measures:
    """Inputs of the rewards."""

    completed: bool
    """True if the candidate ended by itself: it loaded, and was not stopped by the
    clock.  KernelGYM's `status`.
    """
    compiled: bool
    correct: bool
    hacked: bool
    """The verdict says hack: KernelGYM's `decoy_kernel`, with more ways to be one."""
    speedup: float | None = None
    coverage_time: float | None = None
    """PR of eq. 7: share of kernel time in kernels that the candidate brought."""
    coverage_count: float | None = None
    """Share of own kernels by launches."""

    @property
    def credited(self) -> bool:
        """C of the paper."""
        return self.compiled and self.correct and not self.hacked


@dataclass(frozen=True, kw_only=True)
class Options:
    """Weights, caps and penalties, with the defaults of KernelGYM's `kernel_trainer.yaml`."""

    correct_weight: float = 0.5
    performance_weight: float = 0.5
    upper_bound: float = 3.0
    """Speedups above it count as this much; the paper's cap, too."""
    lower_bound: float = 0.0
    """Speedups below it count as 0: dropped, not raised to the bound."""
    speedup_eps: float = 0.01
    """`weighted` pays for a speedup of at least 1 plus this."""
    penalty_score: float = 0.0
    compilation_fail: float = -0.5
    correctness_fail: float = -0.3
    perf_degrade: float = -0.1
    coverage_weight: float = 0.0
    """Weight of the coverage reward; 0 is KernelGYM's `coverage_reward.enable:
    false`, its RL scripts use 0.5.
    """
    coverage: str = "time_coverage"
    """`time_coverage` or `number_coverage`."""

    def __post_init__(self) -> None:
        if self.coverage not in COVERAGES:
            raise UnknownRewardError(
                f"coverage: expected one of {', '.join(COVERAGES)}, got {self.coverage!r}"
            )
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise UnknownRewardError(f"{each.name}: expected a finite number, got {value}")
        if self.lower_bound > self.upper_bound:
            raise UnknownRewardError(
                f"lower_bound {self.lower_bound} is above upper_bound {self.upper_bound}"
            )


STANDARD = Options()

Parts = dict[str, float]
"""Name of a term → its contribution; a reward is the sum of its parts."""

PartsOf = Callable[[Measures, Options], Parts]
"""A plug-in: the parts of one reward.  The first paragraph of its docstring is the
formula that pages show.
"""


def weighed(measures: Measures, options: Options, performance: float) -> Parts:
    """Weighted sum of correctness, performance and coverage; nothing unless credited."""
    if not measures.credited:
        return {"not credited": 0.0}
    kinds = {"time_coverage": measures.coverage_time, "number_coverage": measures.coverage_count}
    return {
        "correct": options.correct_weight,
        "speedup": options.performance_weight * performance,
        "coverage": options.coverage_weight * share(kinds[options.coverage]),
    }


def share(coverage: float | None) -> float:
    """A coverage that was measured, within [0, 1]: nothing measured is nothing covered."""
    return min(max(coverage or 0.0, 0.0), 1.0)
