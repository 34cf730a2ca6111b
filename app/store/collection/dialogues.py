"""STORE: trajectories of a run with the calls of their turns, for exports of whole dialogues.

Verdicts, speedups and rewards are those that hold now, reviews included, as in every export.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import sqlalchemy as sa

from app.domain import reward
from app.domain.atif import Answer, Dialogue
from app.domain.source import source_text
from app.domain.trajectory import Message
from app.store.collection import lifecycle
from app.store.collection.calls import unpacked
from app.store.figures import turn_rewards
from app.store.figures.turn_rewards import StoredTurn


def of_run(connection: sa.Connection, name: str) -> Iterator[Dialogue]:
    """Every trajectory of the run with this name, with the records of its collected calls."""
    known = {one.turn_id: one for one in turn_rewards.of_runs(connection, [name])}
    collection = lifecycle.named(connection, name)
    reward_name = None if collection is None else collection.spec.reward
    found = connection.execute(_TURNS, {"name": name}, execution_options={"yield_per": 100})
    for _, listed in groupby(found, key=lambda row: row.trajectory_id):
        rows = list(listed)
        yield _dialogue(rows, [_measured(known.get(str(row.turn_id)), reward_name) for row in rows])


def _measured(one: StoredTurn | None, reward_name: str | None) -> dict[str, Any]:
    """Verdict, speedup and reward of a turn; a reward only in a collection, which names it."""
    if one is None:
        return {}
    result = one.rewarded
    if result is None:
        return {}
    return {
        "verdict": result["verdict"] if one.has_code else None,
        "speedup": result["speedup"],
        "reward": None if reward_name is None else reward.score(reward_name, result),
    }


def _dialogue(rows: list[Any], measured: list[dict[str, Any]]) -> Dialogue:
    first = rows[0]
    claims = first.claims or {}
    return Dialogue(
        trajectory_id=str(first.trajectory_id),
        session_id=claims.get("rollout_id") or str(first.trajectory_id),
        model=first.run_model,
        answers=tuple(map(_answer, rows, measured)),
        extra={
            "reference": source_text.display(first.reference),
            "name": first.problem,
            "source_set": first.source_set,
            "level": first.level,
            "entry_point": first.entry_point,
            "licence": first.licence,
            "problem_id": str(first.problem_id),
            "backend": first.backend,
            "run": first.run,
            "label": first.label,
            **{
                name: claims[name]
                for name in ("collection_id", "rollout_id", "node")
                if name in claims
            },
        },
    )


def _answer(row: Any, measured: dict[str, Any]) -> Answer:
    cost_usd = None if row.cost_usd is None else float(row.cost_usd)
    further = {"reasoning_tokens": row.reasoning_tokens, "logprobs_mode": row.logprobs_mode}
    outcome = row.outcome or {}
    return Answer(
        messages=tuple(Message(**message) for message in json.loads(row.messages_json)),
        response=source_text.display(row.response),
        timestamp=None if row.last_at is None else row.last_at.isoformat(),
        model=row.model,
        metrics={
            "prompt_tokens": row.input_tokens,
            "completion_tokens": row.output_tokens,
            "cached_tokens": row.cached_input_tokens,
            "cost_usd": cost_usd,
            "prompt_token_ids": _ids(row.prompt_token_ids),
            "completion_token_ids": _ids(row.token_ids),
            "logprobs": unpacked(row.logprobs, "f"),
            "extra": {name: value for name, value in further.items() if value is not None} or None,
        },
        extra={
            name: value
            for name, value in {
                "turn_id": str(row.turn_id),
                "model_call_id": None if row.model_call_id is None else str(row.model_call_id),
                "request": row.request,
                "finish_reason": row.finish_reason,
                "status": row.status or outcome.get("status"),
                **measured,
            }.items()
            if value is not None
        },
    )


def _ids(data: bytes | None) -> list[int] | None:
    found = unpacked(data, "i")
    return None if found is None else [int(each) for each in found]


_TURNS = sa.text("""
SELECT t.turn_id, t.trajectory_id, t.turn_index, t.messages_json, t.response, y.claims, y.label,
  y.backend,
  p.problem_id, p.name AS problem, p.reference, p.source_set, p.level, p.entry_point, p.licence,
  r.name AS run, r.model AS run_model, n.outcome,
  k.model_call_id, k.model, k.request, k.last_at, k.finish_reason, k.input_tokens, k.output_tokens,
  k.cached_input_tokens, k.reasoning_tokens, k.cost_usd, k.prompt_token_ids, k.token_ids,
    k.logprobs, k.logprobs_mode,
  e.status
FROM trajectories y JOIN runs r USING (run_id) JOIN problems p USING (problem_id)
  JOIN turns t USING (trajectory_id)
  LEFT JOIN nodes n ON n.turn_id = t.turn_id
  LEFT JOIN LATERAL (SELECT * FROM model_calls k WHERE k.node_id = n.node_id
    AND k.state = 'answered'
                     ORDER BY k.claim DESC LIMIT 1) k ON true
  LEFT JOIN evaluations e ON e.job_id = t.job_id
WHERE r.name = :name ORDER BY y.trajectory_id, t.turn_index
""")
