"""EVALUATE: error messages for wrong outputs."""

from __future__ import annotations

import math

from app.domain.evaluation import OutputCheck, Trial
from workers.referee.comparison import correctness


def most_informative(failed: list[Trial]) -> Trial:
    """The first call with elements that were never written (only later calls can show them); else the first call."""
    return next((trial for trial in failed if any(check.unwritten for check in trial.outputs)), failed[0])


def describe(trial: Trial, rule: correctness.Rule) -> str:
    """Position and error of the first wrong output of a call, for people."""
    check = next(output for output in trial.outputs if not output.ok)
    return f"call {trial.call}, output {check.index} ({check.dtype}, {list(check.shape)}): {_difference(check, rule)}"


def _difference(check: OutputCheck, rule: correctness.Rule) -> str:
    unwritten = f"{check.unwritten:,} elements were never written; " if check.unwritten else ""
    return unwritten + _error(check, rule)


def _error(check: OutputCheck, rule: correctness.Rule) -> str:
    if check.stale_call is not None:
        return f"it is the answer to call {check.stale_call}"
    if check.nonfinite_mismatches:
        return f"{check.nonfinite_mismatches:,} elements are NaN or infinite where the reference is not, or the reverse"
    if check.differing is not None:
        more = f", besides {check.ties:,} that point at equal values, which is right" if check.ties else ""
        return f"{check.differing:,} of {math.prod(check.shape):,} elements differ{more}"
    if check.beyond is not None and rule.tolerance is not None:
        rtol, atol = rule.tolerance
        return f"{check.beyond:,} of {math.prod(check.shape):,} elements are off by more than {atol:g} + {rtol:g}·|R|"
    if check.wrong_slice is not None:
        along, index = check.wrong_slice
        return f"within its limits as a whole, and slice {index} of dimension {along} is off by half of its own size"
    if check.rel_l2 is None or check.max_norm is None:
        return "the error is not finite"
    return (
        f"relative error {check.rel_l2:.2e} (at most {check.rel_l2_limit:.2e}), "
        f"largest error {check.max_norm:.2e} × rms (at most {check.max_norm_limit:.2e})"
    )
