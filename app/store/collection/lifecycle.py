"""STORE: a collection's life: added, paused, resumed, stopped, finished."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from app.domain import ids
from app.domain.collection import spec as specs
from app.domain.collection.budgets import Amounts, as_mapping
from app.domain.collection.spec import CollectionSpec
from app.domain.collection.states import CollectionState, NodeState
from app.domain.collection.stop_reasons import StopReason
from app.domain.collection.tree import AttemptResult
from app.domain.request import MissingError
from app.store import tables
from app.store.collection import ledger
from app.store.postgres import moments
from app.store.queue import jobs

NEVER = datetime(9999, 1, 1, tzinfo=UTC)
"""Due date of attempts of a paused collection."""

_c = tables.collections.c
_r = tables.collection_rollouts.c
_n = tables.nodes.c


@dataclass(frozen=True, kw_only=True)
class Collection:
    """A stored collection."""

    collection_id: UUID
    run_id: UUID
    spec: CollectionSpec
    prompts: Mapping[str, str]
    """Kind → reference of the template in use, `name@hash`."""
    state: CollectionState
    reason: str
    spent: Amounts
    reserved: Amounts
    deadline_at: datetime | None
    created_at: datetime
    finished_at: datetime | None


def add(
    connection: sa.Connection,
    spec: CollectionSpec,
    *,
    run_id: UUID,
    problem_ids: Sequence[UUID],
    prompts: Mapping[str, str],
    user_id: UUID | None = None,
) -> UUID:
    """Store a collection with a rollout for every problem and sample, due at once."""
    collection_id = ids.new_id()
    caps = spec.budgets.collection
    row = {
        "collection_id": collection_id,
        "run_id": run_id,
        "spec": spec.as_json(),
        "spec_sha256": spec.sha256,
        "endpoint": spec.endpoint,
        "prompts": dict(prompts),
        "user_id": user_id,
        **{f"cap_{name}": value for name, value in as_mapping(caps).items()},
    }
    if caps.wall_s is not None:
        row["deadline_at"] = moments.ahead(caps.wall_s)
    connection.execute(sa.insert(tables.collections).values(row))
    pairs = [
        (problem_id, sample)
        for problem_id in problem_ids
        for sample in range(spec.rollouts_per_problem)
    ]
    rollouts = [(ids.new_id(), *pair) for pair in pairs]
    connection.execute(
        _ADD_ROLLOUTS,
        {
            "collection_id": collection_id,
            "rollout_ids": [each[0] for each in rollouts],
            "problem_ids": [each[1] for each in rollouts],
            "samples": [each[2] for each in rollouts],
        },
    )
    return collection_id


def get(connection: sa.Connection, collection_id: UUID) -> Collection | None:
    """The collection with this id; None if it does not exist."""
    row = connection.execute(
        sa.select(tables.collections).where(_c.collection_id == collection_id)
    ).one_or_none()
    return None if row is None else _as_collection(row)


def named(connection: sa.Connection, name: str) -> Collection | None:
    """The collection with this name; None if it does not exist."""
    joined = tables.collections.join(tables.runs)
    query = sa.select(tables.collections).select_from(joined).where(tables.runs.c.name == name)
    row = connection.execute(query).one_or_none()
    return None if row is None else _as_collection(row)


def find(connection: sa.Connection, name: str) -> Collection:
    """The collection with this id or name.  Raises MissingError."""
    try:
        found = get(connection, UUID(name))
    except ValueError:
        found = named(connection, name)
    if found is None:
        raise MissingError(
            f"collection: expected the id or name of one that is stored, got {name!r}"
        )
    return found


def listed(connection: sa.Connection, *, limit: int = 50) -> list[Collection]:
    """Collections, newest first."""
    query = sa.select(tables.collections).order_by(_c.collection_id.desc()).limit(limit)
    return [_as_collection(row) for row in connection.execute(query)]


def pause(connection: sa.Connection, collection_id: UUID, reason: str) -> CollectionState:
    """Change running to paused; returns the new state.

    Ready attempts leave their endpoint's queue, so that claims for other collections do not read
    past them.  A few attempts that are being claimed, or become ready later, stay in it.
    """
    state = _change(
        connection, collection_id, CollectionState.PAUSED, reason, (CollectionState.RUNNING,)
    )
    if state is CollectionState.PAUSED:
        connection.execute(_PUT_OFF, {"collection_id": collection_id, "never": NEVER})
    return state


def resume(connection: sa.Connection, collection_id: UUID) -> CollectionState:
    """Paused → running, with all that waits due for a message and every try of its answers left;
    the state after that.
    """
    state = _change(
        connection, collection_id, CollectionState.RUNNING, "", (CollectionState.PAUSED,)
    )
    if state is CollectionState.RUNNING:
        ready = sa.and_(_n.collection_id == collection_id, _n.state == NodeState.READY)
        due = sa.and_(_r.collection_id == collection_id, _r.due_at.is_not(None))
        again = {"sent_at": None, "due_at": sa.func.now(), "faults": 0}
        connection.execute(sa.update(tables.nodes).where(ready).values(**again))
        connection.execute(sa.update(tables.collection_rollouts).where(due).values(sent_at=None))
    return state


def stop(connection: sa.Connection, collection_id: UUID, reason: str) -> bool:
    """Change running or paused to stopped, for good: no further call begins.  `settle_stopped`
    follows in another transaction, once no claim of a node can begin.
    """
    states = (CollectionState.RUNNING, CollectionState.PAUSED)
    finished = sa.update(tables.collections).where(
        _c.collection_id == collection_id, _c.state.in_(states)
    )
    connection.execute(finished.values(finished_at=sa.func.now()))
    return (
        _change(connection, collection_id, CollectionState.STOPPED, reason, states)
        is CollectionState.STOPPED
    )


def settle_stopped(connection: sa.Connection, collection_id: UUID, reason: str) -> list[UUID]:
    """End the open rollouts of a stopped collection; ids of their jobs, which are pointless now.
    Each is returned once, also where two processes stop the collection.

    Jobs are locked before rollouts, as a worker does that stores a result.  Calls on their way are
    recorded when they end.
    """
    here = _n.collection_id == collection_id
    evaluating = _n.state == NodeState.EVALUATING
    jobs.lock(connection, list(connection.scalars(sa.select(_n.job_id).where(here, evaluating))))
    outcome = msgspec.to_builtins(AttemptResult(fault=StopReason.STOPPED))
    waiting = sa.update(tables.nodes).where(here, _n.state == NodeState.READY)
    connection.execute(waiting.values(state=NodeState.DONE, outcome=outcome))
    open_ = sa.update(tables.collection_rollouts).where(
        _r.collection_id == collection_id, _r.stop_reason.is_(None)
    )
    ended = open_.values(
        stop_reason=StopReason.STOPPED,
        stop_detail=reason,
        finished_at=sa.func.now(),
        due_at=None,
    ).returning(_r.rollout_id)
    rollout_ids = list(connection.scalars(ended))
    pointless = sa.select(_n.job_id).where(_n.rollout_id.in_(rollout_ids), evaluating)
    return list(connection.scalars(pointless))


def half_stopped(connection: sa.Connection) -> list[tuple[UUID, str]]:
    """Collections of the last day that are stopped, with open rollouts, and the reason: the process
    that stopped them has not come to `settle_stopped`.
    """
    return [(row.collection_id, row.reason) for row in connection.execute(_HALF_STOPPED)]


def finish_if_over(connection: sa.Connection, collection_id: UUID) -> bool:
    """Running → finished, once every rollout has stopped."""
    return bool(connection.execute(_FINISH, {"collection_id": collection_id}).rowcount)


def past_deadline(connection: sa.Connection) -> list[UUID]:
    """Running collections that have used up their wall time."""
    late = sa.select(_c.collection_id).where(
        _c.state == CollectionState.RUNNING, _c.deadline_at < sa.func.now()
    )
    return list(connection.execute(late).scalars())


def refuse_late(connection: sa.Connection, collection_id: UUID) -> None:
    """Ready → done by the budget of wall time, with their rollouts due: no call
    begins after the deadline.
    """
    outcome = AttemptResult(fault=StopReason.BUDGET, detail="collection: wall_s")
    values = {"collection_id": collection_id, "outcome": msgspec.json.encode(outcome).decode()}
    connection.execute(_REFUSE_LATE, values)


def device_classes(connection: sa.Connection, endpoint: str) -> list[str]:
    """Device classes that the running collections of an endpoint evaluate on."""
    chosen = _c.spec["device_class"].astext
    query = (
        sa.select(chosen)
        .distinct()
        .where(_c.state == CollectionState.RUNNING, _c.endpoint == endpoint)
    )
    return list(connection.execute(query).scalars())


def maybe_over(connection: sa.Connection) -> list[UUID]:
    """Running collections without an open rollout."""
    return list(connection.execute(_MAYBE_OVER).scalars())


@lru_cache(maxsize=256)
def _parsed(text: bytes) -> CollectionSpec:
    return specs.parse(msgspec.json.decode(text))


def spec_of(stored: Mapping[str, Any]) -> CollectionSpec:
    """The specification in a row; parsed once per process."""
    return _parsed(msgspec.json.encode(stored, order="deterministic"))


def _change(
    connection: sa.Connection,
    collection_id: UUID,
    state: CollectionState,
    reason: str,
    of: Sequence[CollectionState],
) -> CollectionState:
    """The new state, or the present one if it may not change.  Raises MissingError."""
    changed = sa.update(tables.collections).where(
        _c.collection_id == collection_id, _c.state.in_(of)
    )
    connection.execute(changed.values(state=state, reason=reason))
    found = connection.execute(
        sa.select(_c.state).where(_c.collection_id == collection_id)
    ).scalar_one_or_none()
    if found is None:
        raise MissingError(
            f"collection: expected the id of one that is stored, got {collection_id}"
        )
    return CollectionState(found)


def _as_collection(row: Any) -> Collection:
    return Collection(
        collection_id=row.collection_id,
        run_id=row.run_id,
        spec=spec_of(row.spec),
        prompts=row.prompts,
        state=CollectionState(row.state),
        reason=row.reason,
        spent=ledger.amounts(row, "spent"),
        reserved=ledger.amounts(row, "reserved"),
        deadline_at=row.deadline_at,
        created_at=row.created_at,
        finished_at=row.finished_at,
    )


_ADD_ROLLOUTS = sa.text("""
INSERT INTO collection_rollouts (rollout_id, collection_id, problem_id, sample, due_at)
SELECT rollout_id, :collection_id, problem_id, sample, now()
FROM unnest(:rollout_ids, :problem_ids, :samples) AS new (rollout_id, problem_id, sample)
""").bindparams(
    sa.bindparam("collection_id", type_=sa.Uuid),
    sa.bindparam("rollout_ids", type_=ARRAY(sa.Uuid)),
    sa.bindparam("problem_ids", type_=ARRAY(sa.Uuid)),
    sa.bindparam("samples", type_=ARRAY(sa.Integer)),
)

_PUT_OFF = sa.text("""
UPDATE nodes SET due_at = :never WHERE node_id IN (
  SELECT node_id FROM nodes WHERE collection_id = :collection_id AND state = 'ready'
    FOR NO KEY UPDATE SKIP LOCKED)
""")

_FINISH = sa.text("""
UPDATE collections SET state = 'finished', finished_at = now()
WHERE collection_id = :collection_id AND state = 'running' AND NOT EXISTS (
  SELECT FROM collection_rollouts WHERE collection_id = :collection_id AND stop_reason IS NULL)
""")

_REFUSE_LATE = sa.text("""
WITH refused AS (
  UPDATE nodes SET state = 'done', outcome = CAST(:outcome AS jsonb)
  WHERE node_id IN (SELECT node_id FROM nodes WHERE collection_id = :collection_id
    AND state = 'ready'
                    FOR NO KEY UPDATE SKIP LOCKED)
  RETURNING rollout_id
)
UPDATE collection_rollouts SET due_at = now(), sent_at = NULL WHERE rollout_id IN (SELECT rollout_id
  FROM refused)
""")

_HALF_STOPPED = sa.text("""
SELECT collection_id, reason FROM collections c
WHERE state = 'stopped' AND finished_at > now() - interval '1 day' AND EXISTS (
  SELECT FROM collection_rollouts r WHERE r.collection_id = c.collection_id
    AND r.stop_reason IS NULL)
""")

_MAYBE_OVER = sa.text("""
SELECT collection_id FROM collections c WHERE state = 'running' AND NOT EXISTS (
  SELECT FROM collection_rollouts r WHERE r.collection_id = c.collection_id
    AND r.stop_reason IS NULL)
""")
