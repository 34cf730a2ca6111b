"""ENQUEUE: TRL's reward functions for GRPO and its relatives.

    from app.integrations import trl

    trainer = GRPOTrainer(model, reward_funcs=trl.reward_funcs(gpu="h200"), train_dataset=dataset, …)

The dataset has a column `reference` with the reference's source, and may have `entry_point` and `backend`."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from app.domain import reward
from app.domain.job import REWARD_BUDGET_S
from app.domain.verdict import Label
from app.integrations import scoring

IGNORED = -100
"""The label of a token that bears no loss."""

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
    """Value of a trainer's `reward_funcs`.  Partials of a function of this module: TRL runs them concurrently, and
    its asynchronous trainer can pickle them.  `timing_budget_s`: of each evaluation; more of it, narrower intervals."""
    chosen = functools.partial(
        kernel_reward, reward=reward, gpu=gpu, url=url, deadline_s=deadline_s, timing_budget_s=timing_budget_s
    )
    return [chosen]


def masked(dataset: Any, tokenizer: Any) -> Any:
    """A dataset of the layout `trl_sft_masked` as SFTTrainer takes it: `input_ids`, and `labels` with loss on the
    answers whose `train` is true and on no other token.

    `dataset`: a `datasets.Dataset` with the column `dialogue`.  Uses the tokenizer's chat template where it has
    generation marks, else the one that TRL has for the model.  Raises ValueError where TRL has none, and where the
    template does not mark each answer in one stretch."""
    from trl.chat_template_utils import get_training_chat_template, has_generation_markers

    own = tokenizer.chat_template
    template = own if own and has_generation_markers(own) else get_training_chat_template(tokenizer)

    def tokenized(row: dict[str, Any]) -> dict[str, Any]:
        said = [{"role": each["role"], "content": each["content"]} for each in row["dialogue"]]
        found = tokenizer.apply_chat_template(
            said, chat_template=template, tokenize=True, return_dict=True, return_assistant_tokens_mask=True
        )
        learnt = [each["train"] for each in row["dialogue"] if each["role"] == "assistant"]
        return {"input_ids": found["input_ids"], "labels": labels(found["input_ids"], found["assistant_masks"], learnt)}

    return dataset.map(tokenized, remove_columns=dataset.column_names)


def labels(tokens: Sequence[int], marks: Sequence[int], learnt: Sequence[bool]) -> list[int]:
    """Labels of a dialogue, one a token.  `marks`: 1 for every token of an answer; `learnt`: for every answer, whether
    it bears loss.  ValueError where there are not as many stretches of marks as answers."""
    stretches = [(mark, len(list(run))) for mark, run in itertools.groupby(marks)]
    count = sum(1 for mark, _ in stretches if mark)
    if count != len(learnt):
        raise ValueError(f"chat template: expected marks of {len(learnt)} answers, got {count} stretches")
    answers = iter(learnt)
    bears = [bears for mark, length in stretches for bears in [bool(mark) and next(answers)] * length]
    return [token if bear else IGNORED for token, bear in zip(tokens, bears, strict=True)]


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
    samples = zip(
        completions, reference, entry_point or itertools.repeat(None), backend or itertools.repeat(None), strict=False
    )
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
