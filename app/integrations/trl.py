"""ENQUEUE: TRL's reward functions for GRPO and its relatives.

    from app.integrations import trl

    rewards = trl.reward_funcs(gpu="h200")
    trainer = GRPOTrainer(model, reward_funcs=rewards, train_dataset=dataset)

The dataset is an export of the format `trl_prompts`, or one with a column `reference` (or
`reference_code`) that holds the reference's source; `problem_id`, `entry_point` and
`backend` are read where they are there.  Every answer is stored with its prompt, the
trainer's step and all other columns.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.domain import ids, reward
from app.domain.job import REWARD_BUDGET_S
from app.domain.request import RequestError
from app.domain.rollout import Place
from app.domain.verdict import Label
from app.integrations import scoring

IGNORED = -100
"""The label of a token that bears no loss."""

Completion = str | Sequence[Mapping[str, Any]]
"""Text, or messages with the answer last."""


def reward_funcs(
    *,
    reward: str = reward.DEFAULT,
    gpu: str = "cpu",
    url: str | None = None,
    deadline_s: float = scoring.DEADLINE_S,
    timing_budget_s: float = REWARD_BUDGET_S,
    run: str | None = None,
    model: str | None = None,
) -> list[Callable[..., Any]]:
    """Reward functions for a trainer's `reward_funcs`.  Partials of a function of this module: TRL
    runs them concurrently, and its asynchronous trainer can pickle them.  `timing_budget_s`: of
    each evaluation; more of it, narrower intervals.
    `run` and `model` name the training; without them answers are stored in a run a day.
    """
    chosen = functools.partial(
        kernel_reward,
        reward=reward,
        gpu=gpu,
        url=url,
        deadline_s=deadline_s,
        timing_budget_s=timing_budget_s,
        run=run,
        model=model,
    )
    return [chosen]


def masked(dataset: Any, tokenizer: Any) -> Any:
    """A dataset of the format `trl_sft_masked` as SFTTrainer takes it: `input_ids`, and `labels`
    with loss on the answers with a true `train` and on no other token.

    `dataset`: a `datasets.Dataset` with the column `dialogue`.  Uses the tokenizer's chat template
    where it has generation marks, else the one that TRL has for the model.  Raises ValueError where
    TRL has none, and where the template does not mark each answer in one stretch.
    """
    from trl.chat_template_utils import get_training_chat_template, has_generation_markers

    own = tokenizer.chat_template
    template = own if own and has_generation_markers(own) else get_training_chat_template(tokenizer)

    def tokenized(row: dict[str, Any]) -> dict[str, Any]:
        said = [{"role": each["role"], "content": each["content"]} for each in row["dialogue"]]
        found = tokenizer.apply_chat_template(
            said,
            chat_template=template,
            tokenize=True,
            return_dict=True,
            return_assistant_tokens_mask=True,
        )
        learnt = [each["train"] for each in row["dialogue"] if each["role"] == "assistant"]
        return {
            "input_ids": found["input_ids"],
            "labels": labels(found["input_ids"], found["assistant_masks"], learnt),
        }

    return dataset.map(tokenized, remove_columns=dataset.column_names)


def labels(tokens: Sequence[int], marks: Sequence[int], learnt: Sequence[bool]) -> list[int]:
    """Labels of a dialogue, one a token.  `marks`: 1 for every token of an answer; `learnt`:
    for every answer, whether it bears loss.  ValueError where there are not as many
    stretches of marks as answers.
    """
    stretches = [(mark, len(list(run))) for mark, run in itertools.groupby(marks)]
    count = sum(1 for mark, _ in stretches if mark)
    if count != len(learnt):
        raise ValueError(
            f"chat template: expected marks of {len(learnt)} answers, got {count} stretches"
        )
    answers = iter(learnt)
    bears = [
        bears for mark, length in stretches for bears in [bool(mark) and next(answers)] * length
    ]
    return [token if bear else IGNORED for token, bear in zip(tokens, bears, strict=True)]


async def kernel_reward(
    completions: Sequence[Completion],
    prompts: Sequence[Any] | None = None,
    log_extra: Callable[[str, list[Any]], None] | None = None,
    log_metric: Callable[[str, float], None] | None = None,
    trainer_state: Any = None,
    *,
    reward: str = reward.DEFAULT,
    gpu: str = "cpu",
    url: str | None = None,
    deadline_s: float = scoring.DEADLINE_S,
    timing_budget_s: float = REWARD_BUDGET_S,
    run: str | None = None,
    model: str | None = None,
    **columns: Any,
) -> list[float | None]:
    """The rewards of a batch; None where the candidate is not to blame, which TRL
    leaves out of the advantage.

    `columns` are those of the data set, a value for each completion: `reference_code` (or
    `reference`), `problem_id`, `entry_point`, `backend`, and any other fields, which are stored
    with the answer.  Raises RequestError where a row has neither reference nor problem.
    """
    asked = prompts if prompts is not None else [None] * len(completions)
    places = _places(
        asked, Place(run=run, model=model, step=getattr(trainer_state, "global_step", None))
    )
    rows = [
        {
            name: value[number]
            for name, value in columns.items()
            if _is_column(value, len(completions))
        }
        for number in range(len(completions))
    ]
    wanted = [
        scoring.rollout(
            "trl",
            text_of(completion),
            reference=row.pop("reference_code", None) or row.pop("reference", None),
            problem_id=row.pop("problem_id", None),
            entry_point=row.pop("entry_point", None),
            backend=row.pop("backend", None),
            gpu=gpu,
            timing_budget_s=timing_budget_s,
            prompt=prompt,
            place=place,
            claims=row | {"process": os.environ.get("RANK")},
        )
        for completion, prompt, place, row in zip(completions, asked, places, rows, strict=True)
    ]
    results = await scoring.evaluated(wanted, url=url, deadline_s=deadline_s)
    found = [result for result in results if result and result["valid"]]
    if log_metric and found:
        hacks = sum(result["verdict"] == Label.HACK for result in found)
        log_metric("kernel/correct_rate", sum(bool(one["correct"]) for one in found) / len(found))
        log_metric("kernel/hack_rate", hacks / len(found))
    if log_extra:
        log_extra("kernel_url", [result["url"] if result else None for result in results])
    return [scoring.score(reward, result) for result in results]


def _places(prompts: Sequence[Any], training: Place) -> list[Place]:
    """Places of the answers: the samples of one prompt are a group, and numbered as they come.

    Several processes of a trainer share groups and number on their own."""
    seen: Counter[str] = Counter()
    found = []
    for prompt in prompts:
        group = ids.sha256(repr(prompt).encode("utf-8", "surrogatepass"))[:12]
        found.append(replace(training, group=group, sample=seen[group]))
        seen[group] += 1
    return found


def _is_column(value: Any, length: int) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and len(value) == length


def text_of(completion: Completion) -> str:
    """The answer: of messages the last one's content, which may be missing, and is a
    list of parts in some templates.

    Raises RequestError for a completion that is neither text nor messages.
    """
    if isinstance(completion, str):
        return completion
    if (
        not isinstance(completion, Sequence)
        or not completion
        or not isinstance(completion[-1], Mapping)
    ):
        raise RequestError(
            f"completions: expected text, or messages with the answer last, got {completion!r:.60}"
        )
    content = completion[-1].get("content")
    if isinstance(content, str) or content is None:
        return content or ""
    return "".join(
        str(part.get("text") or "") for part in content if part.get("type") in (None, "text")
    )
