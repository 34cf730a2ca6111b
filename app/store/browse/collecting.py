"""STORE: rows of the pages about collections: rollouts, their trees, and the calls
of an attempt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from app.domain.trajectory import Message
from app.store.collection import messages
from app.store.collection.calls import unpacked
from app.store.evaluation.credited import is_credited_text
from app.store.tables import collections


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """A rollout with its attempts."""

    rollout_id: UUID
    collection_id: UUID
    collection: str
    problem_id: UUID
    problem: str
    sample: int
    stop_reason: str | None
    stop_detail: str
    picked: tuple[str, ...]
    attempts: tuple[dict[str, Any], ...]


@dataclass(frozen=True, kw_only=True)
class RunCollection:
    """The collection whose turns are a run's."""

    collection_id: UUID
    spec: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class AttemptPage:
    """An attempt: its messages, and every try of its call."""

    row: dict[str, Any]
    sent: tuple[Message, ...]
    calls: tuple[dict[str, Any], ...]
    before: tuple[dict[str, Any], ...]
    """Attempts that it was made from or saw."""
    after: tuple[dict[str, Any], ...]
    """Attempts made from it."""


def rollouts(connection: sa.Connection, collection_id: UUID, *, limit: int) -> list[dict[str, Any]]:
    """Rollouts in figures: those that go on first, then by problem."""
    found = connection.execute(_ROLLOUTS, {"collection_id": collection_id, "limit": limit})
    return [dict(row._mapping) for row in found]


def of_runs(connection: sa.Connection, run_ids: Sequence[UUID]) -> dict[UUID, RunCollection]:
    """Run → the collection that it is of; without runs of none."""
    c = collections.c
    query = sa.select(c.run_id, c.collection_id, c.spec).where(c.run_id.in_(run_ids))
    return {
        row.run_id: RunCollection(collection_id=row.collection_id, spec=row.spec)
        for row in connection.execute(query)
    }


def rollout(connection: sa.Connection, rollout_id: UUID) -> Rollout | None:
    """One rollout with its tree, in the order of decisions."""
    head = connection.execute(_ROLLOUT, {"rollout_id": rollout_id}).one_or_none()
    if head is None:
        return None
    found = connection.execute(_TREE, {"rollout_id": rollout_id})
    attempts = tuple(dict(row._mapping) | {"outcome": row.outcome or {}} for row in found)
    values = dict(head._mapping)
    return Rollout(**{**values, "picked": tuple(values["picked"]), "attempts": attempts})


def attempt(connection: sa.Connection, node_id: UUID) -> AttemptPage | None:
    """One attempt with everything that was sent and came back."""
    row = connection.execute(_ATTEMPT, {"node_id": node_id}).one_or_none()
    if row is None:
        return None
    calls = [dict(each._mapping) for each in connection.execute(_CALLS, {"node_id": node_id})]
    keys = [
        *row.messages,
        *(each[name] for each in calls for name in ("answer", "reasoning") if each[name]),
    ]
    told = messages.load(connection, keys)
    for each in calls:
        for name in ("answer", "reasoning"):
            each[name] = told[each[name]].content if each[name] else None
    values = dict(row._mapping) | {"outcome": row.outcome or {}}
    earlier = [key for key in (row.parent, *row.shown) if key is not None]
    asked = {"rollout_id": row.rollout_id, "key": row.key, "before": earlier}
    related = [
        dict(each._mapping) | {"outcome": each.outcome or {}}
        for each in connection.execute(_RELATED, asked)
    ]
    return AttemptPage(
        row=values,
        sent=tuple(told[key] for key in row.messages),
        calls=tuple(map(_with_tokens, calls)),
        before=tuple(each for each in related if each["key"] in earlier),
        after=tuple(each for each in related if each["parent"] == row.key),
    )


SHOWN_TOKENS = 1_000
"""Tokens of an answer that its page lists."""


def _with_tokens(call: dict[str, Any]) -> dict[str, Any]:
    """The call with counts of its token ids, and the first of them with their logprobs."""
    prompt, ids = (unpacked(call[name], "i") for name in ("prompt_token_ids", "token_ids"))
    logprobs: list[Any] = unpacked(call["logprobs"], "f") or [None] * len(ids or ())
    pairs = list(zip(map(int, ids or ()), logprobs, strict=False))
    counts = {
        "prompt_ids": None if prompt is None else len(prompt),
        "answer_ids": None if ids is None else len(ids),
    }
    return call | counts | {"tokens": pairs[:SHOWN_TOKENS]}


def call_of_turn(
    connection: sa.Connection, trajectory_id: UUID, turn_index: int
) -> dict[str, Any] | None:
    """Facts of the call that gave the answer of a turn; None where it was not collected here."""
    found = (
        connection.execute(_OF_TURN, {"trajectory_id": trajectory_id, "turn_index": turn_index})
        .mappings()
        .first()
    )
    return None if found is None else dict(found)


_OF_TURN = sa.text("""
SELECT n.node_id, k.endpoint, k.model, k.finish_reason, k.input_tokens, k.cached_input_tokens,
  k.output_tokens,
  k.reasoning_tokens, k.cost_usd, extract(epoch FROM k.last_at - k.sent_at) AS seconds
FROM turns t JOIN nodes n USING (turn_id) JOIN model_calls k USING (node_id)
WHERE t.trajectory_id = :trajectory_id AND t.turn_index = :turn_index AND k.state = 'answered'
ORDER BY k.claim DESC LIMIT 1
""")
_CREDITED = is_credited_text("(n.outcome->>'correct')::boolean", "n.outcome->>'label'")
_SPEEDUP = "(n.outcome->>'speedup')::double precision"
_ROLLOUTS = sa.text(f"""
SELECT r.rollout_id, r.problem_id, p.name AS problem, r.sample, r.stop_reason, r.stop_detail,
  r.spent_calls,
  r.spent_tokens, r.spent_usd, count(n.node_id) AS attempts,
  count(*) FILTER (WHERE {_CREDITED}) AS correct,
  max({_SPEEDUP}) AS speedup,
  (array_agg(e.speedup_ci_low ORDER BY {_SPEEDUP} DESC NULLS LAST))[1] AS speedup_ci_low,
  (array_agg(e.speedup_ci_high ORDER BY {_SPEEDUP} DESC NULLS LAST))[1] AS speedup_ci_high
FROM collection_rollouts r JOIN problems p USING (problem_id) LEFT JOIN nodes n USING (rollout_id)
  LEFT JOIN evaluations e ON e.job_id = n.job_id
WHERE r.collection_id = :collection_id
GROUP BY r.rollout_id, p.name ORDER BY (r.stop_reason IS NOT NULL), p.name, r.sample LIMIT :limit
""")  # noqa: S608 (made of constants)
_ROLLOUT = sa.text("""
SELECT r.rollout_id, r.collection_id, runs.name AS collection, r.problem_id, p.name AS problem,
  r.sample,
  r.stop_reason, r.stop_detail, r.picked
FROM collection_rollouts r JOIN problems p USING (problem_id)
  JOIN collections c USING (collection_id)
  JOIN runs USING (run_id)
WHERE r.rollout_id = :rollout_id
""")
_TREE = sa.text("""
SELECT n.node_id, n.key, n.parent, n.shown, n.operator, n.turn, n.endpoint, n.state, n.outcome,
  n.tokens, n.cost_usd,
  n.extraction, n.ending, t.trajectory_id, t.turn_index, e.evaluation_id
FROM nodes n LEFT JOIN turns t USING (turn_id) LEFT JOIN evaluations e ON e.job_id = n.job_id
WHERE n.rollout_id = :rollout_id ORDER BY n.created_at, string_to_array(n.key, '.')::int[]
""")
_ATTEMPT = sa.text("""
SELECT n.node_id, n.key, n.rollout_id, n.collection_id, n.operator, n.endpoint, n.seed, n.state,
  n.outcome,
  n.parent, n.shown, n.tokens, n.cost_usd, n.messages, n.extraction, p.problem_id, p.name
    AS problem, r.sample,
  r.picked, runs.name AS collection, t.trajectory_id, t.turn_index, e.evaluation_id
FROM nodes n JOIN collection_rollouts r USING (rollout_id) JOIN problems p USING (problem_id)
  JOIN collections c ON c.collection_id = n.collection_id JOIN runs ON runs.run_id = c.run_id
  LEFT JOIN turns t USING (turn_id) LEFT JOIN evaluations e ON e.job_id = n.job_id
WHERE n.node_id = :node_id
""")
_RELATED = sa.text("""
SELECT n.node_id, n.key, n.parent, n.shown, n.operator, n.state, n.outcome FROM nodes n
WHERE n.rollout_id = :rollout_id AND (n.parent = :key OR n.key = ANY(CAST(:before AS text[])))
ORDER BY n.created_at, string_to_array(n.key, '.')::int[]
""")
_CALLS = sa.text("SELECT * FROM model_calls WHERE node_id = :node_id ORDER BY claim")
