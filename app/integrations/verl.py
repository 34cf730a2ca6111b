"""ENQUEUE: verl's custom reward function.

    reward.custom_reward_function.path=pkg://app.integrations.verl
    reward.custom_reward_function.name=compute_score           # compute_scores for the batch manager
    +reward.custom_reward_function.reward_kwargs.gpu=h200

`ground_truth` is the reference's source and `extra_info` has `entry_point` and `backend`, as in our verl export.

A sample without a score raises: the current trainer then leaves that session out and keeps its siblings.  The legacy
trainer, and the batch manager, stop the step instead, which loses less than training on zeros that nobody earned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.client import Result, Submission
from app.domain import reward
from app.domain.job import REWARD_BUDGET_S
from app.domain.verdict import Label
from app.integrations import scoring

Info = Mapping[str, Any]


async def compute_score(
    data_source: str,  # noqa: ARG001 (verl's signature)
    solution_str: str,
    ground_truth: str,
    extra_info: Info | None = None,
    *,
    reward: str = reward.DEFAULT,
    gpu: str = "cpu",
    url: str | None = None,
    deadline_s: float = scoring.DEADLINE_S,
    timing_budget_s: float = REWARD_BUDGET_S,
    **_: Any,
) -> dict[str, float]:
    """The score of one answer, with the same keys always (verl fails on samples that differ).  Raises NoScoreError."""
    wanted = [_submission(solution_str, ground_truth, extra_info, gpu, timing_budget_s)]
    (result,) = await scoring.evaluated(wanted, url=url, deadline_s=deadline_s)
    return _scores(reward, result)


def compute_scores(
    data_sources: Sequence[str],  # noqa: ARG001 (verl's signature)
    solution_strs: Sequence[str],
    ground_truths: Sequence[str],
    extra_infos: Sequence[Info | None],
    *,
    reward: str = reward.DEFAULT,
    gpu: str = "cpu",
    url: str | None = None,
    deadline_s: float = scoring.DEADLINE_S,
    timing_budget_s: float = REWARD_BUDGET_S,
    **_: Any,
) -> list[dict[str, float]]:
    """The scores of a batch, in order, evaluated side by side.  Raises NoScoreError where one is missing."""
    samples = zip(solution_strs, ground_truths, extra_infos, strict=True)
    wanted = [_submission(*sample, gpu, timing_budget_s) for sample in samples]
    results = scoring.evaluate(wanted, url, deadline_s)
    return [_scores(reward, result) for result in results]


def _submission(answer: str, reference: str, info: Info | None, gpu: str, timing_budget_s: float) -> Submission:
    known = info or {}
    return scoring.submission(
        answer, reference, entry_point=known.get("entry_point"), backend=known.get("backend"), gpu=gpu,
        timing_budget_s=timing_budget_s,
    )  # fmt: skip


def _scores(name: str, result: Result | None) -> dict[str, float]:
    score = scoring.score(name, result)
    if score is None or result is None:
        raise scoring.NoScoreError(f"no score: {result['error'] or result['state'] if result else 'no service'}")
    return {
        "score": score,
        "compiled": float(result["compiled"]),
        "correct": float(result["correct"]),
        "hack": float(result["verdict"] == Label.HACK),
        "speedup": result["speedup"] or 0.0,
        "coverage_time": result["coverage_time"] or 0.0,
    }
