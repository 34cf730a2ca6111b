"""STORE: rollouts and the nodes of their trees.

A decision is one transaction that holds the rollout's row; everything that ends an attempt marks
its rollout due under the same lock, so that no end is missed between two decisions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from app.domain import ids
from app.domain.collection.budgets import NAMES, Amounts
from app.domain.collection.spec import CollectionSpec
from app.domain.collection.states import CollectionState, NodeState
from app.domain.collection.stop_reasons import StopReason
from app.domain.collection.tree import AttemptResult, Generate, Node, Stop, Tree
from app.domain.job import TERMINAL
from app.store import tables
from app.store.collection import ledger
from app.store.collection.lifecycle import spec_of

_r = tables.collection_rollouts.c
_n = tables.nodes.c


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """A rollout with its row locked."""

    rollout_id: UUID
    collection_id: UUID
    problem_id: UUID
    sample: int
    spec: CollectionSpec
    prompts: Mapping[str, str]
    state: CollectionState
    """State of the collection."""
    stop_reason: StopReason | None
    spent: Amounts


@dataclass(frozen=True, kw_only=True)
class AttemptNode:
    """A node with the facts that belong to no decision."""

    node_id: UUID
    node: Node
    state: NodeState
    messages: Sequence[bytes]
    """Keys of its prompt."""
    continues: bool
    """Its conversation is its parent's, with the parent's answer and feedback added."""
    job_id: UUID | None
    job_over: bool
    turn_id: UUID | None
    answer: bytes | None
    feedback: bytes | None
    reserved: Amounts
    ending: str | None
    extraction: str | None
    tokens: int
    cost_usd: float


@dataclass(frozen=True, kw_only=True)
class NewNode:
    """An attempt to be stored."""

    generate: Generate
    messages: Sequence[bytes]
    continues: bool


@dataclass(frozen=True, kw_only=True)
class Due:
    """Address of a message."""

    row_id: UUID
    endpoint: str


def lock(connection: sa.Connection, rollout_id: UUID) -> Rollout | None:
    """The rollout, locked until the transaction ends; None if it does not exist."""
    row = connection.execute(_LOCK, {"rollout_id": rollout_id}).one_or_none()
    if row is None:
        return None
    return Rollout(
        rollout_id=row.rollout_id,
        collection_id=row.collection_id,
        problem_id=row.problem_id,
        sample=row.sample,
        spec=spec_of(row.spec),
        prompts=row.prompts,
        state=CollectionState(row.state),
        stop_reason=None if row.stop_reason is None else StopReason(row.stop_reason),
        spent=ledger.amounts(row, "spent"),
    )


def attempts(connection: sa.Connection, rollout_id: UUID) -> list[AttemptNode]:
    """All nodes of a rollout."""
    return [_as_attempt(row) for row in connection.execute(_ATTEMPTS, {"rollout_id": rollout_id})]


def tree(attempts: Sequence[AttemptNode]) -> Tree:
    """The tree that decisions see."""
    return Tree.of(each.node for each in attempts)


def add(connection: sa.Connection, rollout: Rollout, new: Sequence[NewNode]) -> list[Due]:
    """Store attempts, with a message due for each."""
    if not new:
        return []
    rows = [
        {
            **vars(each.generate),
            "shown": list(each.generate.shown),
            "node_id": ids.new_id(),
            "rollout_id": rollout.rollout_id,
            "collection_id": rollout.collection_id,
            "messages": list(each.messages),
            "continues": each.continues,
        }
        for each in new
    ]
    connection.execute(_ADD, rows)
    return [Due(row_id=row["node_id"], endpoint=row["endpoint"]) for row in rows]


def complete(
    connection: sa.Connection,
    node_id: UUID,
    outcome: AttemptResult,
    *,
    feedback: bytes | None = None,
) -> None:
    """Fix an attempt's outcome: evaluating → done."""
    values = {
        "node_id": node_id,
        "outcome": msgspec.json.encode(outcome).decode(),
        "feedback": feedback,
    }
    connection.execute(_COMPLETE, values)


def decided(connection: sa.Connection, rollout_id: UUID, stop: Stop | None) -> None:
    """Nothing more is due until an attempt ends; or the rollout stops."""
    values: dict[str, Any] = {"due_at": None, "sent_at": None}
    if stop is not None:
        values |= {
            "stop_reason": stop.reason,
            "stop_detail": stop.detail,
            "picked": list(stop.picked),
            "finished_at": sa.func.now(),
        }
    connection.execute(
        sa.update(tables.collection_rollouts).where(_r.rollout_id == rollout_id).values(values)
    )


def mark_due(connection: sa.Connection, rollout_id: UUID) -> None:
    """A decision is due, and its message is about to leave."""
    connection.execute(_MARK_DUE, {"rollout_id": rollout_id})


def ended(connection: sa.Connection, job_id: UUID) -> list[Due]:
    """Rollouts that wait for the job: due for a decision.  Part of the transaction
    in which the job ends.
    """
    return [_due(row) for row in connection.execute(_ENDED, {"job_id": job_id})]


def lock_sweep(connection: sa.Connection, endpoint: str) -> bool:
    """Take the lock of an endpoint's sweeps until the transaction ends; False where
    another transaction holds it.
    """
    query = sa.text("SELECT pg_try_advisory_xact_lock(hashtext(:name))")
    return bool(connection.execute(query, {"name": f"sweep of {endpoint}"}).scalar_one())


def send_missed(connection: sa.Connection, endpoint: str, limit: int) -> list[UUID]:
    """Ids of up to `limit` rollouts of this endpoint's collections that are due, those never
    sent first; marked as sent now.
    """
    return list(connection.execute(_MISSED, {"endpoint": endpoint, "limit": limit}).scalars())


def due(connection: sa.Connection, endpoint: str) -> int:
    """Number of rollouts of this endpoint's collections that are due."""
    return int(connection.execute(_DUE, {"endpoint": endpoint}).scalar_one())


def wake_ended(connection: sa.Connection) -> int:
    """Mark rollouts due that missed the end of a job: the sweep."""
    return connection.execute(_WAKE_ENDED, {"over": [str(state) for state in TERMINAL]}).rowcount


def _due(row: Any) -> Due:
    return Due(row_id=row.rollout_id, endpoint=row.endpoint)


def _as_attempt(row: Any) -> AttemptNode:
    node = Node(
        key=row.key,
        parent=row.parent,
        shown=tuple(row.shown),
        operator=row.operator,
        sample=row.sample,
        turn=row.turn,
        round=row.round,
        endpoint=row.endpoint,
        seed=row.seed,
        outcome=None if row.outcome is None else msgspec.convert(row.outcome, AttemptResult),
    )
    return AttemptNode(
        node_id=row.node_id,
        node=node,
        state=NodeState(row.state),
        messages=row.messages,
        continues=row.continues,
        job_id=row.job_id,
        job_over=row.job_state in TERMINAL,
        turn_id=row.turn_id,
        answer=row.answer,
        feedback=row.feedback,
        reserved=msgspec.convert(row.reserved or {}, Amounts),
        ending=row.ending,
        extraction=row.extraction,
        tokens=row.tokens,
        cost_usd=float(row.cost_usd),
    )


_ADD = sa.insert(tables.nodes).values(sent_at=sa.func.now())
_LOCK = sa.text(f"""
SELECT r.rollout_id, r.collection_id, r.problem_id, r.sample, r.stop_reason, c.spec, c.prompts,
  c.state,
  {", ".join(f"r.spent_{name}" for name in NAMES)}
FROM collection_rollouts r JOIN collections c USING (collection_id)
WHERE r.rollout_id = :rollout_id FOR NO KEY UPDATE OF r
""")  # noqa: S608 (made of our constants)
_ATTEMPTS = sa.text("""
SELECT n.node_id, n.key, n.parent, n.shown, n.operator, n.sample, n.turn, n.round, n.endpoint,
  n.seed, n.messages,
  n.continues, n.state, n.reserved, n.turn_id, n.job_id, n.answer, n.extraction, n.ending, n.tokens,
    n.cost_usd,
  n.feedback, n.outcome, j.state AS job_state
FROM nodes n LEFT JOIN jobs j USING (job_id) WHERE n.rollout_id = :rollout_id
""")
_COMPLETE = sa.text("""
UPDATE nodes SET state = 'done', outcome = CAST(:outcome AS jsonb), feedback = :feedback,
  reserved = NULL
WHERE node_id = :node_id
""")
_MARK_DUE = sa.text(
    "UPDATE collection_rollouts SET due_at = now(), sent_at = now() WHERE rollout_id = :rollout_id"
)
_ENDED = sa.text("""
UPDATE collection_rollouts r SET due_at = now(), sent_at = now() FROM nodes n, collections c
WHERE n.job_id = :job_id AND n.state = 'evaluating' AND r.rollout_id = n.rollout_id
  AND c.collection_id = r.collection_id
RETURNING r.rollout_id, c.endpoint
""")
_MISSED = sa.text("""
UPDATE collection_rollouts SET sent_at = now() WHERE rollout_id IN (
  SELECT r.rollout_id FROM collection_rollouts r JOIN collections c USING (collection_id)
  WHERE r.due_at IS NOT NULL AND c.endpoint = :endpoint AND c.state = 'running'
  ORDER BY r.sent_at NULLS FIRST, r.due_at LIMIT :limit FOR NO KEY UPDATE OF r SKIP LOCKED)
RETURNING rollout_id
""")
_DUE = sa.text("""
SELECT count(*) FROM collection_rollouts r JOIN collections c USING (collection_id)
WHERE r.due_at IS NOT NULL AND c.endpoint = :endpoint AND c.state = 'running'
""")
_WAKE_ENDED = sa.text("""
UPDATE collection_rollouts SET due_at = now(), sent_at = NULL WHERE rollout_id IN (
  SELECT r.rollout_id FROM collection_rollouts r JOIN nodes n USING (rollout_id)
    JOIN jobs j USING (job_id)
  WHERE n.state = 'evaluating' AND j.state = ANY(:over) AND r.due_at IS NULL
  FOR NO KEY UPDATE OF r SKIP LOCKED)
""").bindparams(sa.bindparam("over", type_=ARRAY(sa.Text)))
