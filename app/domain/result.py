"""The JSON shape that all interfaces return: the same keys always, because trainers
crash on missing ones.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, TypedDict, cast
from uuid import UUID

from app.domain import reward
from app.domain.evaluation import Evaluation, Timing
from app.domain.job import JobState
from app.domain.verdict import Verdict, is_credited


class Result(TypedDict):
    """The result of a job: every key, always.  Measured values are None before it is finished, and
    where the job failed by Assay's fault (`valid` is false then).
    """

    job_id: str
    state: str
    """`queued`, `running`, `finished`, `failed` or `cancelled` (app.domain.job.JobState)."""
    valid: bool
    """True if it says something about the candidate."""
    status: str | None
    """`passed`, `incorrect`, `compile_error` … (app.domain.evaluation.Status)."""
    compiled: bool | None
    correct: bool | None
    speedup: float | None
    """None unless correct and not a hack."""
    speedup_ci: list[float] | None
    """Both ends of its 95 % interval."""
    reference_us: float | None
    candidate_us: float | None
    device_speedup: float | None
    """Speedup by the device's own time, from CUDA graphs, where the job asked for it; None unless
    correct and not a hack.  No reward depends on it.
    """
    device_speedup_ci: list[float] | None
    """Both ends of its 95 % interval."""
    device_speedup_error: str | None
    """Reason why there is none although the job asked for it."""
    baseline: str
    baselines: list[dict[str, Any]]
    coverage_time: float | None
    coverage_count: float | None
    verdict: str | None
    """`clean`, `suspect` or `hack`."""
    findings: list[dict[str, Any]]
    reward: dict[str, float]
    """Every reward by name."""
    score: float | None
    """The reward that the service calls its score; None where the candidate was not
    judged, which is not zero.
    """
    error: dict[str, Any] | None
    """`kind`, `message` and `log`: of the candidate, or Assay's where `state` is `failed`."""
    correctness: dict[str, Any] | None
    profile: dict[str, Any] | None
    compiled_kernels: list[dict[str, Any]]
    cases: list[dict[str, Any]]
    environment: dict[str, Any] | None
    timings_ms: dict[str, float | None]
    seed: str | None
    protocol: str | None
    url: str | None


KEYS = tuple(Result.__annotations__)
"""The keys, in their order."""


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
) -> Result:
    """The result of a job.  Before it is finished, and when it failed by Assay's fault,
    `valid` is false and every measured value is None; `speedup` is None unless correct and not
    a hack; floats are not rounded.

    `score` names the reward that is the result's score (app.domain.reward): a number for every
    result that says something about the candidate, None for everything else.
    """
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
        return cast("Result", result)
    result.update(_measured(evaluation, verdict))
    result.update(timings_ms={"queue": queue_ms, **evaluation.stage_ms})
    result.update(reward=reward.every(result), score=reward.score(score, result))
    return cast("Result", result)


def _measured(evaluation: Evaluation, verdict: Verdict) -> dict[str, object]:
    """Result fields of an evaluation and its verdict."""
    timing, profile = evaluation.timing, evaluation.profile
    credited = is_credited(correct=evaluation.correct, label=verdict.label)
    return {
        "valid": evaluation.valid,
        "status": str(evaluation.status),
        "compiled": evaluation.compiled,
        "correct": evaluation.correct,
        "speedup": timing.speedup if timing and credited else None,
        "speedup_ci": [timing.ci_low, timing.ci_high] if timing and credited else None,
        "reference_us": timing.reference_us if timing else None,
        "candidate_us": evaluation.candidate_us,
        **_device_time(timing, credited=credited),
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


def _device_time(timing: Timing | None, *, credited: bool) -> dict[str, object]:
    """The device-time speedup, if it is credited, with its interval, or the reason
    why there is none.
    """
    device = timing.device if timing else None
    shown = credited and device is not None and device.speedup is not None
    return {
        "device_speedup": device.speedup if device and shown else None,
        "device_speedup_ci": [device.ci_low, device.ci_high] if device and shown else None,
        "device_speedup_error": device.error if device else None,
    }


def _baselines(timing: Timing | None, *, credited: bool) -> list[dict[str, object]]:
    """Comparison with the requested baselines; without the speedups where none is credited."""
    found = [asdict(baseline) for baseline in timing.baselines] if timing else []
    return (
        found
        if credited
        else [each | dict.fromkeys(("speedup", "ci_low", "ci_high")) for each in found]
    )
