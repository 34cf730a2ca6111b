"""Samples that metrics are computed from, and the attempts that they count."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


class Operator(StrEnum):
    """Comparison of a speedup with a threshold; papers differ, so every figure names it."""

    MORE = ">"
    """KernelBench."""
    AT_LEAST = ">="
    """Dr. Kernel, flashinfer-bench."""

    def holds(self, value: float, threshold: float) -> bool:
        """True if `value` passes."""
        return value > threshold if self is Operator.MORE else value >= threshold


class Counted(StrEnum):
    """Attempts that a rate is out of: one definition for the report, the pages and the exports."""

    KERNELBENCH = "kernelbench"
    """Every answer that was given, as KernelBench's own script counts: one without code, and one
    that could not be evaluated (status `invalid`), is a failure.  An evaluation that is still to
    come, and a job that ended by a fault of the service, is no answer yet.
    """
    EVALUATED = "evaluated"
    """Answers with code and an evaluation that is valid and judged."""

    def counts(self, *, has_code: bool, valid: bool) -> bool:
        """True if an attempt is in the denominator."""
        return self is Counted.KERNELBENCH or (has_code and valid)


COUNTED = Counted.KERNELBENCH
"""Used unless another value is requested."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricSample:
    """One attempt on one problem, as figures see it."""

    problem: str
    """Name of the problem: key of clusters and per-problem figures."""
    correct: bool
    speedup: float | None = None
    """None where it is not correct or was not timed."""

    def __post_init__(self) -> None:
        if self.speedup is not None and not (self.correct and 0 < self.speedup < math.inf):
            raise ValueError(
                f"speedup: expected a positive number of a correct outcome, got {self}"
            )

    def fast(self, p: float, operator: Operator = Operator.MORE) -> bool:
        """Correct, and faster than `p`; at p = 0 correctness alone, timed or not."""
        if p == 0:
            return self.correct
        return self.speedup is not None and operator.holds(self.speedup, p)
