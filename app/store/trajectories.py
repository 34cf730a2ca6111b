"""STORE: runs, trajectories and turns.  What models wrote comes back as it went in, character for character."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from app.domain import ids, source
from app.domain.trajectory import Message, Run, Trajectory, Turn
from app.store import bulk, tables

_r = tables.runs.c
_t = tables.trajectories.c
_u = tables.turns.c


class RunConflictError(ValueError):
    """A run of that name exists and says something else about itself."""


def add_run(connection: sa.Connection, run: Run) -> UUID:
    """Id of the run of that name; stored if it is new.

    Raises RunConflictError where it exists with another model, settings or step."""
    row = {"name": run.name, "model": run.model, "settings": run.settings, "step": run.step}
    new = insert(tables.runs).values(run_id=ids.new_id(), **row).on_conflict_do_nothing()
    connection.execute(new)
    known = connection.execute(sa.select(tables.runs).where(_r.name == run.name)).one()
    stored = {"name": known.name, "model": known.model, "settings": known.settings, "step": known.step}
    if stored != row:
        raise RunConflictError(f"run {run.name!r}: expected {stored} as before, got {row}")
    run_id: UUID = known.run_id
    return run_id


def run_ids(connection: sa.Connection, names: Iterable[str]) -> dict[str, UUID]:
    """Id of the run of each name; runs that are new are stored with nothing but their names."""
    wanted = sorted(set(names))
    if not wanted:
        return {}
    rows = [{"run_id": ids.new_id(), "name": name} for name in wanted]
    bulk.insert_missing(connection, tables.runs, rows, unique=("name",))
    found = connection.execute(sa.select(_r.name, _r.run_id).where(_r.name.in_(wanted)))
    return {row.name: row.run_id for row in found}


def add(
    connection: sa.Connection,
    *,
    problem_id: UUID,
    backend: str,
    turns: Sequence[Turn],
    run_id: UUID | None = None,
    label: str | None = None,
) -> UUID:
    """Store a whole trajectory; turns are numbered by their order.  `turn.job_id` names the job of its candidate."""
    trajectory_id = ids.new_id()
    connection.execute(
        sa.insert(tables.trajectories).values(
            trajectory_id=trajectory_id, problem_id=problem_id, run_id=run_id, backend=backend, label=label
        )
    )
    rows = [
        {
            "turn_id": ids.new_id(),
            "trajectory_id": trajectory_id,
            "turn_index": index,
            "messages_json": _dump(turn.messages),
            "response": source.encode(turn.response),
            "job_id": turn.job_id,
        }
        for index, turn in enumerate(turns)
    ]
    if rows:
        connection.execute(sa.insert(tables.turns), rows)
    return trajectory_id


def get(connection: sa.Connection, trajectory_id: UUID) -> Trajectory | None:
    """The trajectory of that id with its turns in order, if there is one."""
    head = connection.execute(
        sa.select(_t.problem_id, _t.backend, _t.label, _r.name.label("run"))
        .select_from(tables.trajectories.outerjoin(tables.runs))
        .where(_t.trajectory_id == trajectory_id)
    ).one_or_none()
    if head is None:
        return None
    rows = connection.execute(
        sa.select(_u.turn_index, _u.messages_json, _u.response, _u.job_id, tables.candidates.c.source)
        .select_from(tables.turns.outerjoin(tables.jobs).outerjoin(tables.candidates))
        .where(_u.trajectory_id == trajectory_id)
        .order_by(_u.turn_index)
    )
    return Trajectory(trajectory_id=trajectory_id, turns=tuple(_as_turn(row) for row in rows), **head._mapping)


def _as_turn(row: Any) -> Turn:
    return Turn(
        messages=tuple(Message(**message) for message in json.loads(row.messages_json)),
        response=source.decode(row.response),
        candidate=None if row.source is None else source.decode(row.source),
        turn_index=row.turn_index,
        job_id=row.job_id,
    )


def _dump(messages: Sequence[Message]) -> str:
    """ASCII only: NUL and lone surrogates are escaped, and PostgreSQL sees nothing that it refuses."""
    return json.dumps([vars(message) for message in messages], ensure_ascii=True)
