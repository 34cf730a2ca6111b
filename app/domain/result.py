"""The one JSON shape that everybody reads: the same keys always, because trainers crash on missing ones."""

from __future__ import annotations

from dataclasses import asdict
from uuid import UUID

from app.domain import reward
from app.domain.evaluation import Evaluation, Timing
from app.domain.job import JobState
from app.domain.verdict import Label, Verdict

KEYS = (
    "job_id",
    "state",
    "valid",
    "status",
    "compiled",
    "correct",
    "speedup",
    "speedup_ci",
    "reference_us",
    "candidate_us",
    "baseline",
    "baselines",
    "coverage_time",
    "coverage_count",
    "verdict",
    "findings",
    "reward",
    "score",
    "error",
    "correctness",
    "profile",
    "compiled_kernels",
    "cases",
    "environment",
    "timings_ms",
    "seed",
    "protocol",
    "url",
)


def build(
    *,
    job_id: UUID,
    state: JobState,
    evaluation: Evaluation | None,
    verdict: Verdict | None,
    baseline: str = "eager",
    queue_ms: float | None = None,
    error: dict[str, str] | None = None,
    url: str | None = None,
    score: str = reward.DEFAULT,
) -> dict[str, object]:
    """The result of a job.  Before it is finished, and when it failed by our fault, `valid` is false and
    every measured value is None; `speedup` is None unless correct and not a hack; floats are not rounded.

    `score` names the reward that is the result's score (app.domain.reward): a number for whatever says something about
    the candidate, None for everything else."""
    result: dict[str, object] = dict.fromkeys(KEYS)
    result.update(
        job_id=str(job_id),
        state=str(state),
        valid=False,
        findings=[],
        reward={},
        timings_ms={},
        compiled_kernels=[],
        cases=[],
        speedup_ci=None,
        baseline=baseline,
        baselines=[],
        error=error,
        url=url,
    )
    if evaluation is None or verdict is None:
        return result
    result.update(_measured(evaluation, verdict))
    result.update(timings_ms={"queue": queue_ms, **evaluation.stage_ms})
    result.update(reward=reward.every(result), score=reward.score(score, result))
    return result


def _measured(evaluation: Evaluation, verdict: Verdict) -> dict[str, object]:
    """Result fields of an evaluation and its verdict."""
    timing, profile = evaluation.timing, evaluation.profile
    credited = evaluation.correct and verdict.label is not Label.HACK
    return {
        "valid": evaluation.valid,
        "status": str(evaluation.status),
        "compiled": evaluation.compiled,
        "correct": evaluation.correct,
        "speedup": timing.speedup if timing and credited else None,
        "speedup_ci": [timing.ci_low, timing.ci_high] if timing and credited else None,
        "reference_us": timing.reference_us if timing else None,
        "candidate_us": evaluation.candidate_us,
        "baselines": _baselines(timing, credited=credited),
        "coverage_time": profile.coverage_time if profile else None,
        "coverage_count": profile.coverage_count if profile else None,
        "verdict": str(verdict.label),
        "findings": [asdict(finding) for finding in verdict.findings],
        "error": asdict(evaluation.error) if evaluation.error else None,
        "correctness": asdict(evaluation.correctness) if evaluation.correctness else None,
        "profile": asdict(profile) if profile else None,
        "compiled_kernels": [asdict(kernel) for kernel in evaluation.compiled_kernels],
        "cases": [asdict(case) for case in evaluation.cases],
        "environment": asdict(evaluation.environment),
        "seed": evaluation.seed,
        "protocol": evaluation.protocol,
    }


def _baselines(timing: Timing | None, *, credited: bool) -> list[dict[str, object]]:
    """How it compares with the baselines that were asked for; without the speedups where none is credited."""
    found = [asdict(baseline) for baseline in timing.baselines] if timing else []
    return found if credited else [each | dict.fromkeys(("speedup", "ci_low", "ci_high")) for each in found]
