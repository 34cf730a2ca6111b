"""ENQUEUE: verl's reward manager that stores every answer at its place in the
training: step, group and sample.

    reward.reward_manager.source=importlib
    reward.reward_manager.module.path=pkg://app.integrations.verl_manager
    reward.reward_manager.name=KernelRewardManager
    reward.custom_reward_function.path=pkg://app.integrations.verl
    reward.custom_reward_function.name=compute_score
    +reward.custom_reward_function.reward_kwargs.run=grpo-1

verl's own managers hand a reward function `extra_info` alone.  This one adds fields to a copy of
it, except those that the data set has itself:

    uid            verl's id of the prompt in this step: the group
    sample         number of the answer in its group: verl's session id, else one that differs in
                   every reward worker
    step           the trainer's step; where the batch does not have it, the newest weights that the
                   answer is from
    global_steps   the same, until verl's manager puts the engine's field of that name in its place:
                   the weights' step
    prompt         the messages before a chat template
    response_ids   tokens of the answer, and `rollout_log_probs` where the batch has them

Needs verl, and is imported by its trainer alone.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any

import numpy as np
from verl import DataProto
from verl.experimental.reward_loop.reward_manager.naive import NaiveRewardManager


class KernelRewardManager(NaiveRewardManager):  # type: ignore[misc]  # verl has no types
    """`NaiveRewardManager` that completes `extra_info`."""

    def __init__(self, config: Any, *args: Any, **more: Any) -> None:
        super().__init__(config, *args, **more)
        self._seen: Counter[str] = Counter()
        self._worker, self._workers = _numbered(config)

    async def run_single(self, data: Any) -> dict[str, Any]:
        """Score of one answer; of several sequences, of the last one."""
        last = data[-1:]
        known = dict(last.non_tensor_batch.get("extra_info", [{}])[0] or {})
        placed = self._place(last) | {
            name: value for name, value in known.items() if value is not None
        }
        more = {**last.non_tensor_batch, "extra_info": np.array([placed], dtype=object)}
        completed = DataProto(batch=last.batch, non_tensor_batch=more, meta_info=last.meta_info)
        found: dict[str, Any] = await super().run_single(completed)
        return found

    def _place(self, data: Any) -> dict[str, Any]:
        """Fields of an answer that verl knows beside `extra_info`."""
        told = {name: value[0] for name, value in data.non_tensor_batch.items()}
        step = _step({**told, **data.meta_info}, told.get("tool_extra_fields"))
        place: dict[str, Any] = {"global_steps": step, "step": step}
        if (uid := told.get("uid")) is not None:
            session = told.get("session_id")
            number = (
                self._seen[str(uid)] * self._workers + self._worker
                if session is None
                else int(session)
            )
            place |= {"uid": str(uid), "sample": number}
            self._seen[str(uid)] += 1
        if (prompt := told.get("raw_prompt")) is not None:
            place["prompt"] = list(prompt)
        return place | _tokens(data.batch)


def _step(known: dict[str, Any], fields: Any) -> int | None:
    """The trainer's step, or the version of the weights.  verl says -1 where it knows none."""
    found = known.get("global_steps", (fields or {}).get("max_global_steps"))
    return None if found is None or int(found) < 0 else int(found)


def _tokens(batch: Any) -> dict[str, Any]:
    """Tokens of an answer without padding, and their log-probabilities if the
    rollout engine gave them.
    """
    length = batch["responses"].shape[-1]
    kept = batch["attention_mask"][0, -length:].bool()
    found = {"response_ids": batch["responses"][0][kept].tolist()}
    if "rollout_log_probs" in batch.keys():  # noqa: SIM118 (a TensorDict iterates over rows)
        found["rollout_log_probs"] = batch["rollout_log_probs"][0][kept].tolist()
    return found


def _numbered(config: Any) -> tuple[int, int]:
    """Number of this reward worker and the count of all; verl names its actors
    `reward_loop_worker_<number>`.
    """
    with suppress(Exception):  # without Ray there is one
        import ray

        name = ray.get_runtime_context().get_actor_name() if ray.is_initialized() else None
        if name and name.rpartition("_")[2].isdigit():
            return int(name.rpartition("_")[2]), int(config.reward.num_workers)
    return 0, 1
