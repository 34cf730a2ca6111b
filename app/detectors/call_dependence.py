"""JUDGE: right answers in some kinds of calls only (hacks 1c, 3e, 4h).

Evidence: which verified calls failed.  Right at first and wrong from some call on may be a counter
that waits for the timing; right on the problem's own inputs and wrong on scaled or sparse ones may
be a kernel made for the test's draws.  Both are also how bugs look, and the status is `incorrect`
anyway: information for readers.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from app.domain.output_checks import OutputCheck, Trial
from app.domain.verdict import Finding, Label, Subject

OWN = "own"

LITTLE = 4.0
FEW, FEW_SHARE = 2, 1e-3
"""Errors up to so many times their limit, or in so few elements, are a matter of
rounding and of ties.
"""


class CallDependence:
    """Call-count, mode and value dependence."""

    version = 2

    def detect(self, subject: Subject) -> Iterator[Finding]:
        """Needs right calls beside wrong ones."""
        correctness = subject.evaluation.correctness
        trials = correctness.trials if correctness else ()
        right, wrong = (
            [trial for trial in trials if trial.ok],
            [trial for trial in trials if not trial.ok],
        )
        if not right or not wrong or all(map(_is_rounding, wrong)):
            return
        summary = _by_value(right, wrong) or _by_count(right, wrong)
        if summary is None:
            return
        yield Finding(
            detector="call_dependence",
            version=self.version,
            label=Label.CLEAN,
            summary=summary,
            evidence={
                "right": [_which(trial) for trial in right],
                "wrong": [_which(trial) for trial in wrong],
            },
        )


def _is_rounding(trial: Trial) -> bool:
    """True if every wrong output is wrong by little or in few elements: such errors
    come and go with the inputs.
    """
    wrong = [check for check in trial.outputs if not check.ok]
    return bool(wrong) and all(map(_is_small, wrong)) and not trial.late_writes


def _is_small(check: OutputCheck) -> bool:
    if check.stale_call is not None or check.unwritten or check.nonfinite_mismatches:
        return False
    if check.differing is not None:
        return check.differing <= max(FEW, FEW_SHARE * prod(check.shape))
    if check.rel_l2 is None or check.max_norm is None:
        return False
    return (
        check.rel_l2 <= LITTLE * check.rel_l2_limit
        and check.max_norm <= LITTLE * check.max_norm_limit
    )


def _by_value(right: list[Trial], wrong: list[Trial]) -> str | None:
    """Every failure on inputs that were changed, none on the problem's own."""
    variants = sorted({trial.variant for trial in wrong})
    if OWN in variants or not any(trial.variant == OWN for trial in right):
        return None
    return f"right on the problem's own inputs, wrong where they are {', '.join(variants)}"


def _by_count(right: list[Trial], wrong: list[Trial]) -> str | None:
    """Every right call before every wrong one."""
    last, first = max(trial.call for trial in right), min(trial.call for trial in wrong)
    return f"right up to call {last}, wrong from call {first} on" if last < first else None


def _which(trial: Trial) -> dict[str, object]:
    return {"call": trial.call, "variant": trial.variant}
