"""STORE: attempts that are due for a call: found, claimed under a lease within the
budgets, or refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from app.domain import ids
from app.domain.collection.budgets import Amounts, as_mapping
from app.domain.collection.call import EndpointConfig
from app.domain.collection.spec import CollectionSpec
from app.domain.collection.states import NodeState
from app.domain.collection.tree import AttemptResult
from app.store import tables
from app.store.collection import endpoints, ledger
from app.store.collection.lifecycle import spec_of

_n = tables.nodes.c


@dataclass(frozen=True, kw_only=True)
class Ready:
    """An attempt with its row locked, ready for its call."""

    node_id: UUID
    rollout_id: UUID
    collection_id: UUID
    problem_id: UUID
    sample: int
    """Sample number of the rollout."""
    key: str
    turn: int
    seed: int
    claims: int
    endpoint: str
    messages: Sequence[bytes]
    spec: CollectionSpec
    config: EndpointConfig


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """A call that this worker may make and store."""

    ready: Ready
    claim: int
    owner: str
    most: Amounts
    """Amounts reserved for the call."""


def next_ready(connection: sa.Connection, endpoint: str, *, first_turns: bool) -> Ready | None:
    """The attempt that calls next; rollouts that have begun take precedence.  Without `first_turns`
    new rollouts wait. Raises MissingError if the endpoint is no longer stored.
    """
    row = connection.execute(
        _NEXT, {"endpoint": endpoint, "first_turns": first_turns}
    ).one_or_none()
    if row is None:
        return None
    return Ready(
        node_id=row.node_id,
        rollout_id=row.rollout_id,
        collection_id=row.collection_id,
        problem_id=row.problem_id,
        sample=row.rollout_sample,
        key=row.key,
        turn=row.turn,
        seed=row.seed,
        claims=row.claims,
        endpoint=row.endpoint,
        messages=row.messages,
        spec=spec_of(row.spec),
        config=(
            endpoints.parsed(row.config)
            if row.config is not None
            else endpoints.get(connection, endpoint)
        ),
    )


def lock_ready(connection: sa.Connection, node_id: UUID) -> bool:
    """Lock an attempt again; False if it is no longer ready."""
    query = sa.select(_n.node_id).where(_n.node_id == node_id, _n.state == NodeState.READY)
    return (
        connection.execute(query.with_for_update(key_share=True, skip_locked=True)).one_or_none()
        is not None
    )


def begin(
    connection: sa.Connection,
    ready: Ready,
    *,
    owner: str,
    lease_s: float,
    most: Amounts,
    request: Mapping[str, Any],
) -> Claimed | None:
    """Reserve `most` in the budgets of the rollout and of the collection, lease the attempt, and
    record that its call is about to be sent; None where a budget has no room (see
    `ledger.refusal`): something may be held then, roll back.

    Every call of a collection locks its row until the transaction ends: make this
    the last statement.
    """
    claim = ready.claims + 1
    values = {
        "node_id": ready.node_id,
        "rollout_id": ready.rollout_id,
        "collection_id": ready.collection_id,
        "claim": claim,
        "owner": owner,
        "lease_s": lease_s,
        "reserved": msgspec.json.encode(most).decode(),
        "model_call_id": ids.new_id(),
        "endpoint": ready.endpoint,
        "request": msgspec.json.encode(request).decode(),
    }
    caps = {f"cap_{name}": value for name, value in as_mapping(ready.spec.budgets.rollout).items()}
    if not connection.execute(_BEGIN, {**values, **as_mapping(most), **caps}).rowcount:
        return None
    return Claimed(ready=ready, claim=claim, owner=owner, most=most)


def postpone(connection: sa.Connection, node_id: UUID, pause_s: float) -> None:
    """Let an attempt wait that no budget has room for now."""
    connection.execute(_POSTPONE, {"node_id": node_id, "pause_s": pause_s})


def refuse(connection: sa.Connection, node_id: UUID, outcome: AttemptResult) -> None:
    """Ready → done without a call: no budget will ever have room for it."""
    values = {"node_id": node_id, "outcome": msgspec.json.encode(outcome).decode()}
    connection.execute(_REFUSE, values)


_NEXT = sa.text("""
SELECT n.node_id, n.rollout_id, n.collection_id, n.key, n.turn, n.seed, n.claims, n.endpoint,
  n.messages, r.problem_id,
  r.sample AS rollout_sample, c.spec, e.config
FROM nodes n JOIN collections c USING (collection_id) JOIN collection_rollouts r USING (rollout_id)
  LEFT JOIN endpoints e ON e.name = n.endpoint
WHERE n.state = 'ready' AND n.endpoint = :endpoint AND n.due_at <= now() AND c.state = 'running'
  AND (c.deadline_at IS NULL OR c.deadline_at > now()) AND (n.turn = 0) <= :first_turns
ORDER BY (n.turn = 0), n.due_at, n.node_id LIMIT 1 FOR NO KEY UPDATE OF n SKIP LOCKED
""")
_BEGIN = sa.text(f"""
WITH {ledger.RESERVED}, leased AS (
  UPDATE nodes SET state = 'calling', claims = :claim, lease_owner = :owner,
    reserved = CAST(:reserved AS jsonb),
    lease_until = now() + make_interval(secs => :lease_s)
  WHERE node_id = :node_id AND EXISTS (SELECT FROM reserved)
)
INSERT INTO model_calls (model_call_id, node_id, claim, endpoint, worker, request)
SELECT :model_call_id, :node_id, :claim, CAST(:endpoint AS text), CAST(:owner AS text),
  CAST(:request AS jsonb)
FROM reserved
""")  # noqa: S608 (made of our constants)
_POSTPONE = sa.text("""
UPDATE nodes SET due_at = now() + make_interval(secs => :pause_s), sent_at = NULL
  WHERE node_id = :node_id
""")
_REFUSE = sa.text(
    "UPDATE nodes SET state = 'done', outcome = CAST(:outcome AS jsonb) WHERE node_id = :node_id"
)
