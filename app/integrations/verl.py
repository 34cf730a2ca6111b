"""ENQUEUE: verl's custom reward function.

    reward.custom_reward_function.path=pkg://app.integrations.verl
    reward.custom_reward_function.name=compute_score  # compute_scores for the batch manager
    +reward.custom_reward_function.reward_kwargs.gpu=h200

`ground_truth` is the reference's source; `extra_info` has `entry_point`, `backend`, `problem_id`
and `prompt`, as in the formats `verl_rl` and `drkernel_rl`.  Every answer is stored with its prompt
and all of `extra_info`; `run`, `model` and `step` are taken from `reward_kwargs`, or from
`extra_info`, which may have `group` (or `uid`) and `sample`, too.

A sample without a score raises: the current trainer then leaves that session out and keeps its
siblings.  The legacy trainer, and the batch manager, stop the step instead, which loses less than
training on zeros that no candidate earned.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from app.client import Result
from app.domain import reward, reward_request
from app.domain.job import REWARD_BUDGET_S
from app.domain.request import RequestError
from app.domain.rollout import Place, Rollout
from app.domain.verdict import Label
from app.integrations import scoring

Info = Mapping[str, Any]


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Info | None = None,
    *,
    reward: str = reward.DEFAULT,
    gpu: str = "cpu",
    url: str | None = None,
    deadline_s: float = scoring.DEADLINE_S,
    timing_budget_s: float = REWARD_BUDGET_S,
    run: str | None = None,
    model: str | None = None,
    step: int | None = None,
    **more: Any,
) -> dict[str, float]:
    """The score of one answer, with the same keys always (verl fails on samples that differ).

    Raises NoScoreError, and RequestError for a misspelt key of `reward_kwargs`."""
    _check(more)
    training = Place(run=run, model=model, step=step)
    wanted = [
        _rollout(
            data_source, solution_str, ground_truth, extra_info, gpu, timing_budget_s, training
        )
    ]
    (result,) = await scoring.evaluated(wanted, url=url, deadline_s=deadline_s)
    return _scores(reward, result)


def compute_scores(
    data_sources: Sequence[str],
    solution_strs: Sequence[str],
    ground_truths: Sequence[str],
    extra_infos: Sequence[Info | None],
    *,
    reward: str = reward.DEFAULT,
    gpu: str = "cpu",
    url: str | None = None,
    deadline_s: float = scoring.DEADLINE_S,
    timing_budget_s: float = REWARD_BUDGET_S,
    run: str | None = None,
    model: str | None = None,
    step: int | None = None,
    **more: Any,
) -> list[dict[str, float]]:
    """The scores of a batch, in order, evaluated side by side.

    Raises NoScoreError where one is missing, and RequestError for a misspelt key of
    `reward_kwargs`.
    """
    _check(more)
    training = Place(run=run, model=model, step=step)
    samples = zip(data_sources, solution_strs, ground_truths, extra_infos, strict=True)
    wanted = [_rollout(*sample, gpu, timing_budget_s, training) for sample in samples]
    results = scoring.evaluate(wanted, url, deadline_s)
    return [_scores(reward, result) for result in results]


def _check(more: Mapping[str, Any]) -> None:
    """Refuse arguments that nothing reads.  verl's own about reward models
    (`reward_router_address` …) are let pass.
    """
    if unknown := sorted(name for name in more if not name.startswith("reward_")):
        known = [name for name in inspect.signature(compute_score).parameters if name != "more"]
        raise RequestError(
            f"reward_kwargs: unknown {', '.join(unknown)}; expected some of {', '.join(known[4:])}"
        )


def _rollout(
    data_source: str,
    answer: str,
    reference: str | None,
    info: Info | None,
    gpu: str,
    timing_budget_s: float,
    training: Place,
) -> Rollout:
    known = dict(info or {})
    said = {name: known[name] for name in reward_request.PLACE if known.get(name) is not None}
    said.setdefault("group", known.get("uid"))
    said.setdefault("step", known.get("global_steps"))
    told = reward_request.place(said, "extra_info")
    prompt = known.pop("prompt", None) or known.pop("original_prompt", None)
    return scoring.rollout(
        "verl",
        answer,
        reference=reference or None,
        problem_id=known.get("problem_id"),
        entry_point=known.get("entry_point"),
        backend=known.get("backend"),
        gpu=gpu,
        timing_budget_s=timing_budget_s,
        prompt=_decoded(prompt),
        place=training.or_else(told),
        claims={"data_source": data_source, "extra_info": known},
    )


def _decoded(prompt: Any) -> Any:
    """Messages, which a column of text holds as JSON; any other text is the user's."""
    if isinstance(prompt, str) and prompt.startswith("["):
        with suppress(ValueError):
            return json.loads(prompt)
    return prompt


def _scores(name: str, result: Result | None) -> dict[str, float]:
    score = scoring.score(name, result)
    if score is None or result is None:
        raise scoring.NoScoreError(
            f"no score: {result['error'] or result['state'] if result else 'no service'}"
        )
    return {
        "score": score,
        "compiled": float(bool(result["compiled"])),
        "correct": float(bool(result["correct"])),
        "hack": float(result["verdict"] == Label.HACK),
        "speedup": result["speedup"] or 0.0,
        "coverage_time": result["coverage_time"] or 0.0,
    }
