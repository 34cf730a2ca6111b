"""STORE: token-level rows of a collection, one rollout after another.

Rewards are of the verdicts and reviews that hold now, as in every export: an answer that is found
to be a hack after its collection has the reward of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from app.domain import reward
from app.domain.collection.sequences import TokenTurn, joined
from app.domain.collection.stop_reasons import UNFINISHED, StopReason
from app.domain.request import MissingError
from app.store.collection import lifecycle
from app.store.collection.calls import unpacked
from app.store.figures import turn_rewards


def rows(
    connection: sa.Connection, collection_id: UUID, *, unfinished: bool = False
) -> Iterator[dict[str, Any]]:
    """Rows for trainers: `group` is the problem, `sample` the line.

    Rollouts ended by a fault, a budget or a user are left out unless `unfinished`: they would count
    in a group's baseline although they are incomplete.  Raises MissingError.
    """
    collection = lifecycle.get(connection, collection_id)
    if collection is None:
        raise MissingError(f"no collection {collection_id}")
    rewards = _rewards(connection, collection.spec.name, collection.spec.reward)
    found = connection.execute(
        _CALLS, {"collection_id": collection_id}, execution_options={"yield_per": 100}
    )
    for (rollout_id, line), listed in groupby(found, key=lambda row: (row.rollout_id, row.line)):
        calls = list(listed)
        first = calls[0]
        if not unfinished and (
            first.stop_reason is None or StopReason(first.stop_reason) in UNFINISHED
        ):
            continue
        head = {
            "group": str(first.problem_id),
            "problem": first.name,
            "sample": first.rollout_sample,
            "line": line,
            "rollout_id": str(rollout_id),
            "stop_reason": first.stop_reason,
            "model": first.model,
            "logprobs_mode": first.logprobs_mode,
            "template_sha256": first.template_sha256,
            "weight_version": first.weight_version,
        }
        for row in joined(_turn(call, rewards) for call in calls):
            yield {**head, **row.as_json()}


def _rewards(connection: sa.Connection, run: str, reward_name: str) -> dict[str, float | None]:
    """Turn → reward; None where the service could not evaluate the answer."""
    found = {}
    for one in turn_rewards.of_runs(connection, [run]):
        result = one.rewarded
        found[one.turn_id] = None if result is None else reward.score(reward_name, result)
    return found


def _turn(row: Any, rewards: Mapping[str, float | None]) -> TokenTurn:
    return TokenTurn(
        key=row.key,
        model_call_id=str(row.model_call_id),
        prompt=[int(each) for each in unpacked(row.prompt_token_ids, "i") or ()],
        answer=[int(each) for each in unpacked(row.token_ids, "i") or ()],
        logprobs=unpacked(row.logprobs, "f") or [],
        reward=rewards.get(str(row.turn_id)),
        turn_id=str(row.turn_id) if row.turn_id else None,
    )


_CALLS = sa.text("""
SELECT r.rollout_id, r.problem_id, r.sample AS rollout_sample, r.stop_reason, p.name, n.sample
  AS line, n.key,
  n.turn_id, k.model_call_id, k.model, k.prompt_token_ids, k.token_ids, k.logprobs,
    k.logprobs_mode,
  k.template_sha256, k.weight_version
FROM collection_rollouts r JOIN problems p USING (problem_id) JOIN nodes n USING (rollout_id)
  JOIN model_calls k USING (node_id)
WHERE r.collection_id = :collection_id AND k.state = 'answered' AND k.token_ids IS NOT NULL
  AND k.prompt_token_ids IS NOT NULL AND k.logprobs IS NOT NULL
ORDER BY p.name, r.problem_id, r.sample, r.rollout_id, n.sample, n.turn
""")
