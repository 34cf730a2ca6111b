"""STORE: turns of collected dialogues: the ordinary trajectories, so that pages,
exports and rewards see them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from app.domain import ids
from app.domain.source import source_text
from app.domain.trajectory import Message
from app.store import tables
from app.store.collection.calls import Held
from app.store.collection.claims import Ready
from app.store.postgres.jsonb import plain


def add_turn(
    connection: sa.Connection,
    ready: Ready,
    held: Held,
    *,
    sent: Sequence[Message],
    answer: str,
    job_id: UUID | None,
    problem: str,
) -> UUID:
    """Add the turn of an answer: to its parent's trajectory if the conversation continues, else as
    the first turn of a new trajectory, with all messages that were sent.
    """
    goes_on = held.continues and held.parent_turn_id is not None
    told = sent[-1:] if goes_on else sent
    turn_id = ids.new_id()
    row = {
        "turn_id": turn_id,
        "messages_json": json.dumps([vars(message) for message in told], ensure_ascii=True),
        "response": source_text.encode(answer),
        "job_id": job_id,
    }
    if goes_on:
        connection.execute(_GO_ON, {**row, "parent_turn_id": held.parent_turn_id})
    else:
        row |= {"trajectory_id": _trajectory(connection, ready, held, problem), "turn_index": 0}
        connection.execute(sa.insert(tables.turns), row)
    return turn_id


def _trajectory(connection: sa.Connection, ready: Ready, held: Held, problem: str) -> UUID:
    trajectory_id = ids.new_id()
    branch = "" if ready.key in ("0", "0.0") else f"/{ready.key}"
    claims: dict[str, Any] = {
        "collection_id": str(ready.collection_id),
        "rollout_id": str(ready.rollout_id),
        "node": ready.key,
    }
    row = {
        "trajectory_id": trajectory_id,
        "problem_id": ready.problem_id,
        "run_id": held.run_id,
        "backend": ready.spec.backend,
        "label": f"{problem}/{ready.sample}{branch}",
        "claims": plain(claims),
    }
    connection.execute(sa.insert(tables.trajectories), row)
    return trajectory_id


_GO_ON = sa.text("""
INSERT INTO turns (turn_id, trajectory_id, turn_index, messages_json, response, job_id)
SELECT :turn_id, trajectory_id, turn_index + 1, :messages_json, :response, :job_id FROM turns
WHERE turn_id = :parent_turn_id
""").bindparams(
    sa.bindparam("turn_id", type_=sa.Uuid),
    sa.bindparam("parent_turn_id", type_=sa.Uuid),
    sa.bindparam("job_id", type_=sa.Uuid),
    sa.bindparam("response", type_=sa.LargeBinary),
)
