"""Check of a problem: its reference as the candidate against itself.  The options of the
evaluation, the row that its result becomes, and the summary of many rows.

A reference against itself must be passed and clean, with 1.0 in the interval of its speedup: any
other result is the problem's fault, or a fault of the evaluation.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from app.domain import policy, roofline
from app.domain.evaluation import FLOOR_HEADROOM, Evaluation, ProblemMemory, Status
from app.domain.job import REWARD_BUDGET_S, JobOptions
from app.domain.other_timings import DeviceTiming
from app.domain.problem import Problem
from app.domain.verdict import Label, Verdict

BACKEND = "torch"
"""Backend of the candidate: its source is the reference's."""
POLICY = policy.ANYTHING_CORRECT
"""Policy of the verdict: a reference has no kernel of its own, and need not have one."""

OFF = 0.03
"""Deviation from 1 above which the speedup of a reference over itself is noted,
independent of its interval.
"""

USUAL_TRUTH = "fp64"
"""Computation of expected outputs that a line of a table does not mention."""

SHOWN_CHARS = 200
"""Characters of an error's message in a line of a table."""

OUTCOMES = ("passed", "accused", "invalid", "our fault", "blamed")
"""Outcomes of a check (CheckRow.outcome)."""

FAILED_OUTCOMES = OUTCOMES[1:]
"""Outcomes of which a summary names the problems."""

OUR_FAULT = "our_fault"
"""Error kind of a job that failed or did not end."""
OURS = frozenset({OUR_FAULT, "no_room", "disturbed"})
"""Error kinds that are a fault of the evaluation, never of the problem."""

DEGENERATE = "degenerate_problem"
"""The detector of degenerate problems."""

TOO_LARGE = "problem_too_large"
"""The error kind of a problem that needs more memory than its device has: memory that runs out
under any other kind is a fault of the evaluation.
"""


def identity(reference: bytes, entry_point: str = "Model") -> bytes:
    """A candidate that is the reference: its source, with its model under the
    candidate's name as well.
    """
    name = entry_point.encode()
    return reference.rstrip() + b"\n\n\n" + name + b"New = " + name + b"\n"


def mixed(problems: Sequence[Problem]) -> list[Problem]:
    """The problems in an order that depends on their content alone.  A set lists its
    large problems together: begun in that order they wait for each other's memory, while
    the rest of the device is idle.
    """
    return sorted(problems, key=lambda problem: problem.reference_sha256)


def options(budget_s: float = REWARD_BUDGET_S, *, device_time: bool = False) -> JobOptions:
    """Options of a problem check.  `budget_s`: timing budget."""
    return JobOptions(
        timing_budget_s=budget_s,
        policy=POLICY.name,
        device_time=device_time,
    )


@dataclass(frozen=True, kw_only=True)
class CheckRow:
    """One problem against itself.  JSON has the same keys."""

    name: str
    level: int | None
    status: str
    verdict: str
    reference_sha256: str = ""
    findings: tuple[str, ...] = ()
    """Detectors that accuse."""
    degenerate: str = ""
    """Reason why a right answer proves little, where it is not held against this copy of the
    reference, which gains nothing.
    """
    seconds: float | None = None
    """From the claim, or the start, to the result."""
    speedup: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    device: DeviceTiming | None = None
    """Speedup by the device's own time, or why there is none, where the check asked for it."""
    groups: int | None = None
    reference_us: float | None = None
    floor_us: float | None = None
    """Limit of detectors: half of the time in which the device moves a call's bytes."""
    limit_us: float | None = None
    """Shortest possible time of one call (app/domain/roofline.py)."""
    bytes_moved: int | None = None
    """Inputs and outputs of one call."""
    flops: int | None = None
    memory: ProblemMemory | None = None
    truth: str | None = None
    """Computation of the expected outputs."""
    error_kind: str | None = None
    error: str | None = None
    stage_ms: dict[str, float] = field(default_factory=dict)

    @property
    def holds_one(self) -> bool:
        """True if the interval holds 1.0."""
        return (
            self.ci_low is not None
            and self.ci_high is not None
            and self.ci_low <= 1 <= self.ci_high
        )

    @property
    def is_off(self) -> bool:
        """True if the speedup is far from 1.0, independent of the interval."""
        return self.speedup is not None and abs(self.speedup - 1) > OFF

    @property
    def roofline_share(self) -> float | None:
        """Shortest possible time over the reference's; of a row without one, that of its bytes."""
        least_us = self.limit_us or (self.floor_us * FLOOR_HEADROOM if self.floor_us else None)
        return least_us / self.reference_us if least_us and self.reference_us else None

    @property
    def outcome(self) -> str:
        """One of `OUTCOMES`: `passed`, `accused` (passed and not clean), `invalid` (also a
        degenerate problem, whose answers prove nothing), `our fault`, or `blamed`: a status that
        holds a failure against a candidate that is the reference.
        """
        if self.is_degenerate:
            return "invalid"
        if self.status == Status.PASSED:
            return "passed" if self.verdict == Label.CLEAN else "accused"
        if self.status == Status.INVALID:
            return "our fault" if self.is_ours else "invalid"
        return "blamed"

    @property
    def is_degenerate(self) -> bool:
        """True if the only finding is about the problem: outputs that do not depend
        on its inputs, say.
        """
        return self.status == Status.PASSED and self.findings == (DEGENERATE,)

    @property
    def is_ours(self) -> bool:
        """True if a fault of the evaluation ended it."""
        starved = self.error_kind != TOO_LARGE and "out of memory" in (self.error or "").lower()
        return self.status == Status.INVALID and (self.error_kind in OURS or starved)


def row(
    problem: Problem, evaluation: Evaluation, verdict: Verdict, seconds: float | None
) -> CheckRow:
    """Row for a problem from the evaluation of `identity`."""
    timing, profile, error = evaluation.timing, evaluation.profile, evaluation.error
    return CheckRow(
        name=problem.name,
        level=problem.level,
        status=str(evaluation.status),
        verdict=str(verdict.label),
        reference_sha256=problem.reference_sha256,
        findings=tuple(
            sorted({each.detector for each in verdict.findings if each.label is not Label.CLEAN})
        ),
        degenerate="; ".join(
            each.summary
            for each in verdict.findings
            if each.detector == DEGENERATE and each.label is Label.CLEAN
        ),
        seconds=seconds,
        speedup=timing.speedup if timing else None,
        ci_low=timing.ci_low if timing else None,
        ci_high=timing.ci_high if timing else None,
        device=timing.device if timing else None,
        groups=timing.groups if timing else None,
        reference_us=timing.reference_us if timing else None,
        floor_us=timing.floor_us if timing else None,
        limit_us=_limit_us(evaluation),
        bytes_moved=profile.bytes_moved if profile else None,
        flops=profile.flops if profile else None,
        memory=evaluation.memory,
        truth=evaluation.correctness.truth if evaluation.correctness else None,
        error_kind=error.kind if error else None,
        error=error.message if error else None,
        stage_ms=dict(evaluation.stage_ms),
    )


def _limit_us(evaluation: Evaluation) -> float | None:
    profile, here = evaluation.profile, evaluation.environment
    if profile is None or not profile.bytes_moved or not here.bandwidth_gb_s:
        return None
    return roofline.limit_us(
        profile.bytes_moved, profile.flops, here.bandwidth_gb_s, here.device_class
    )


def fault(problem: Problem, kind: str, message: str) -> CheckRow:
    """Row for a job that failed or did not end."""
    return CheckRow(
        name=problem.name,
        level=problem.level,
        status=str(Status.INVALID),
        verdict=str(Label.CLEAN),
        error_kind=OUR_FAULT,
        error=f"{kind}: {message}",
    )


def read(stored: dict[str, Any]) -> CheckRow:
    """A row from JSON; fields of another version are left out."""
    known = {name: value for name, value in stored.items() if name in CheckRow.__dataclass_fields__}
    memory = known.get("memory") and ProblemMemory(**known["memory"])
    device = known.get("device") and DeviceTiming(**known["device"])
    return CheckRow(
        **{
            **known,
            "findings": tuple(known.get("findings", ())),
            "memory": memory,
            "device": device,
        }
    )


def line(row: CheckRow) -> str:
    """A row as text."""
    number = f"L{row.level}/" if row.level is not None else ""
    seconds = f"{row.seconds:7.1f} s" if row.seconds is not None else f"{'–':>9}"
    said = f"{number}{row.name[:44]:46} {row.status:15} {row.verdict:8}{seconds} "
    if row.speedup is not None:
        off = (
            ""
            if row.holds_one and not row.is_off
            else "  1.0 is outside"
            if not row.holds_one
            else "  far from 1.0"
        )
        said += (
            f" {row.speedup:.3f} [{row.ci_low:.3f}, {row.ci_high:.3f}], {row.groups} groups{off}"
        )
    if row.device is not None:
        said += f"  device {row.device.error or f'{row.device.speedup:.3f}'}"[:SHOWN_CHARS]
    if row.memory is not None:
        said += f"  {row.memory.reference_bytes / 1e9:.2f} GB"
    if row.truth not in (None, USUAL_TRUTH):
        said += f"  truth {row.truth}"
    if row.findings:
        said += f"  {','.join(row.findings)}"
    if row.degenerate:
        said += f"  {DEGENERATE}: {row.degenerate}"
    if row.error_kind:
        said += f" {row.error_kind}: {' '.join((row.error or '').split())[:SHOWN_CHARS]}"
    return said


def summary(
    rows: Sequence[CheckRow], seconds: float, evaluated: int | None = None
) -> dict[str, Any]:
    """Counts, and names of problems that failed.  `seconds`: of all checks, in which so many
    were `evaluated`; all rows by default.
    """
    rated = len(rows) if evaluated is None else evaluated
    timed = [row for row in rows if row.speedup is not None]
    by_device = [row.device for row in rows if row.device is not None]
    named = {
        outcome: [_label(row) for row in rows if row.outcome == outcome]
        for outcome in FAILED_OUTCOMES
    }
    return {
        "problems": len(rows),
        "passed": sum(row.status == Status.PASSED for row in rows),
        "clean": sum(row.outcome == "passed" for row in rows),
        "timed": len(timed),
        "one_in_interval": sum(row.holds_one for row in timed),
        "off": [f"{_label(row)} {row.speedup:.3f}" for row in timed if row.is_off],
        "one_outside": [f"{_label(row)} {row.speedup:.3f}" for row in timed if not row.holds_one],
        "device_timed": sum(each.speedup is not None for each in by_device),
        "not_device_timed": _counted([each.error for each in by_device if each.error is not None]),
        "degenerate": [_label(row) for row in rows if row.degenerate],
        "kinds": _counted([f"{row.status}: {_kind(row)}" for row in rows if _kind(row)]),
        **named,
        "seconds": seconds,
        "per_minute": 60 * rated / seconds if seconds and rated else None,
        "levels": {
            str(level): _level(rows, level)
            for level in sorted({row.level for row in rows}, key=str)
        },
    }


def _label(row: CheckRow) -> str:
    return f"L{row.level}/{row.name}" if row.level is not None else row.name


def _kind(row: CheckRow) -> str | None:
    """Reason why a problem cannot be evaluated or an evaluation failed; None if it was passed."""
    return DEGENERATE if row.is_degenerate else row.error_kind


def _counted(texts: Sequence[str]) -> dict[str, int]:
    """Text → how many."""
    return dict(sorted(Counter(texts).items()))


def _level(rows: Sequence[CheckRow], level: int | None) -> dict[str, Any]:
    of = [row for row in rows if row.level == level]
    seconds = [row.seconds for row in of if row.seconds is not None]
    return {
        "problems": len(of),
        "clean": sum(row.outcome == "passed" for row in of),
        "p50_s": statistics.median(seconds) if seconds else None,
        "max_s": max(seconds, default=None),
    }
