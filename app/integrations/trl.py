"""ENQUEUE: TRL's reward functions for GRPO and its relatives.

    from app.integrations import trl

    trainer = GRPOTrainer(model, reward_funcs=trl.reward_funcs(gpu="h200"), train_dataset=dataset, …)

The dataset has a column `reference` with the reference's source, and may have `entry_point` and `backend`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

from app.domain import reward
from app.domain.job import REWARD_BUDGET_S
from app.domain.verdict import Label
from app.integrations import scoring

Completion = str | Sequence[dict[str, Any]]
"""Text, or messages whose last one is the answer."""


def reward_funcs(
    *,
    reward: str = reward.DEFAULT,
    gpu: str = "cpu",
    url: str | None = None,
    deadline_s: float = scoring.DEADLINE_S,
    timing_budget_s: float = REWARD_BUDGET_S,
) -> list[Callable[..., Any]]:
    """What `reward_funcs` of a trainer takes.  Partials of a function of this module: TRL runs them concurrently, and
    its asynchronous trainer can pickle them.  `timing_budget_s`: of each evaluation; more of it, narrower intervals."""
    chosen = functools.partial(
        kernel_reward, reward=reward, gpu=gpu, url=url, deadline_s=deadline_s, timing_budget_s=timing_budget_s
    )
    return [chosen]


async def kernel_reward(
    completions: Sequence[Completion],
    reference: Sequence[str],
    entry_point: Sequence[str] | None = None,
    backend: Sequence[str] | None = None,
    log_extra: Callable[[str, list[Any]], None] | None = None,
    log_metric: Callable[[str, float], None] | None = None,
    *,
    reward: str = reward.DEFAULT,
    gpu: str = "cpu",
    url: str | None = None,
    deadline_s: float = scoring.DEADLINE_S,
    timing_budget_s: float = REWARD_BUDGET_S,
    **_: Any,
) -> list[float | None]:
    """The rewards of a batch; None where the candidate is not to blame, which TRL leaves out of the advantage."""
    samples = zip(completions, reference, entry_point or repeat(None), backend or repeat(None), strict=False)
    wanted = [
        scoring.submission(
            _text(completion), source, entry_point=name, backend=kind, gpu=gpu, timing_budget_s=timing_budget_s
        )
        for completion, source, name, kind in samples
    ]
    results = await scoring.evaluated(wanted, url=url, deadline_s=deadline_s)
    found = [result for result in results if result and result["valid"]]
    if log_metric and found:
        log_metric("kernel/correct_rate", sum(result["correct"] for result in found) / len(found))
        log_metric("kernel/hack_rate", sum(result["verdict"] == Label.HACK for result in found) / len(found))
    if log_extra:
        log_extra("kernel_url", [result["url"] if result else None for result in results])
    return [scoring.score(reward, result) for result in results]


def _text(completion: Completion) -> str:
    return completion if isinstance(completion, str) else str(completion[-1]["content"])
