"""STORE: runs, trajectories and turns.  Texts of models come back as they went in,
character for character.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from app.domain import ids
from app.domain.request import ConflictError
from app.domain.source import source_text
from app.domain.trajectory import Message, Run, Trajectory, Turn
from app.store import tables
from app.store.postgres import bulk, row_columns
from app.store.postgres.jsonb import plain

_r = tables.runs.c
_t = tables.trajectories.c
_u = tables.turns.c


class RunConflictError(ConflictError):
    """A run with that name exists with other properties."""


class TurnConflictError(ConflictError):
    """The turn cannot stand there."""


def add_run(connection: sa.Connection, run: Run) -> UUID:
    """Id of the run with this name, stored if it is new.  Raises RunConflictError if it exists with
    another model, settings or step.
    """
    row = {"name": run.name, "model": run.model, "settings": run.settings, "step": run.step}
    new = insert(tables.runs).values(run_id=ids.new_id(), **row).on_conflict_do_nothing()
    connection.execute(new)
    known = connection.execute(sa.select(tables.runs).where(_r.name == run.name)).one()
    stored = {
        "name": known.name,
        "model": known.model,
        "settings": known.settings,
        "step": known.step,
    }
    if stored != row:
        raise RunConflictError(f"run {run.name!r}: expected {stored} as before, got {row}")
    run_id: UUID = known.run_id
    return run_id


def run_ids(connection: sa.Connection, runs: Iterable[Run]) -> dict[str, UUID]:
    """Id of the run of each name; a stored run stays as it is and ignores newer facts."""
    rows = [
        {
            "run_id": ids.new_id(),
            "name": name,
            "model": run.model,
            "settings": plain(run.settings),
            "step": run.step,
        }
        for name, run in {run.name: run for run in runs}.items()
    ]
    stored = bulk.insert_missing(connection, tables.runs, rows, unique=("name",))
    return {name: row.row_id for (name,), row in stored.items()}


def add(
    connection: sa.Connection,
    *,
    problem_id: UUID,
    backend: str,
    turns: Sequence[Turn],
    run_id: UUID | None = None,
    label: str | None = None,
    trajectory_id: UUID | None = None,
    claims: dict[str, Any] | None = None,
) -> UUID:
    """Store a whole trajectory; turns are numbered by their order.  `turn.job_id` names the job of
    its candidate, `claims` holds other facts stated by its source: never counted as measured.

    With a `trajectory_id` that is stored already nothing is; raises
    TurnConflictError where that one is another.
    """
    trajectory_id = trajectory_id or ids.new_id()
    new = insert(tables.trajectories).values(
        trajectory_id=trajectory_id,
        problem_id=problem_id,
        run_id=run_id,
        backend=backend,
        label=label,
        claims=None if claims is None else plain(claims),
    )
    stored = connection.execute(
        new.on_conflict_do_nothing().returning(_t.trajectory_id)
    ).one_or_none()
    if stored is None:
        _check_same(connection, trajectory_id, (problem_id, backend, label, run_id), turns)
        return trajectory_id
    rows = [_row(trajectory_id, index, turn) for index, turn in enumerate(turns)]
    if rows:
        connection.execute(sa.insert(tables.turns), rows)
    return trajectory_id


def _check_same(
    connection: sa.Connection,
    trajectory_id: UUID,
    facts: tuple[UUID, str, str | None, UUID | None],
    turns: Sequence[Turn],
) -> None:
    """Check that the stored trajectory has these facts, and these turns in their order."""
    columns = (_t.problem_id, _t.backend, _t.label, _t.run_id)
    known = connection.execute(sa.select(*columns).where(_t.trajectory_id == trajectory_id)).one()
    if tuple(known) != facts:
        raise TurnConflictError(
            f"trajectory_id: expected a new one, got {trajectory_id}, which is another one's"
        )
    numbered = tuple(replace(turn, turn_index=index) for index, turn in enumerate(turns))
    if numbered != _turns(connection, trajectory_id):
        raise TurnConflictError(
            f"trajectory_id: expected the turns of {trajectory_id} as stored, got others"
        )


def append(connection: sa.Connection, trajectory_id: UUID, turn: Turn) -> Turn:
    """Append a turn; its `turn_index` is the number of turns so far.  Returns the turn as
    stored; a repeated turn is the stored one.  Raises TurnConflictError for another turn, for a
    gap, and for a missing trajectory.
    """
    locked = (
        sa.select(_t.trajectory_id)
        .where(_t.trajectory_id == trajectory_id)
        .with_for_update(key_share=True)
    )
    if connection.execute(locked).one_or_none() is None:
        raise TurnConflictError(f"expected a trajectory that is stored, got {trajectory_id}")
    known = {each.turn_index: each for each in _turns(connection, trajectory_id)}
    stored = known.get(turn.turn_index)
    if stored is not None:
        if stored != turn:
            raise TurnConflictError(
                f"turn_index {turn.turn_index}: expected the turn that is stored, got another one"
            )
        return stored
    if turn.turn_index != len(known):
        raise TurnConflictError(
            f"turn_index: expected {len(known)}, the number of turns so far, got {turn.turn_index}"
        )
    connection.execute(sa.insert(tables.turns).values(_row(trajectory_id, turn.turn_index, turn)))
    return turn


def get(connection: sa.Connection, trajectory_id: UUID) -> Trajectory | None:
    """The trajectory with this id and its turns in order; None if it does not exist."""
    head = connection.execute(
        sa.select(_t.problem_id, _t.backend, _t.label, _r.name.label("run"))
        .select_from(tables.trajectories.outerjoin(tables.runs))
        .where(_t.trajectory_id == trajectory_id)
    ).one_or_none()
    if head is None:
        return None
    return Trajectory(
        trajectory_id=trajectory_id, turns=_turns(connection, trajectory_id), **head._mapping
    )


@dataclass(frozen=True, kw_only=True)
class TrajectorySummary:
    """A trajectory without its turns."""

    trajectory_id: UUID
    problem_id: UUID
    run: str | None
    label: str | None
    backend: str
    turns: int
    created_at: datetime


def listed(
    connection: sa.Connection,
    *,
    run: str | None = None,
    label: str | None = None,
    problem_id: UUID | None = None,
    before: UUID | None = None,
    limit: int,
) -> list[TrajectorySummary]:
    """Trajectories, newest first: of a run, of a label, on a problem, of before that one."""
    counted = (
        sa.select(sa.func.count()).where(_u.trajectory_id == _t.trajectory_id).scalar_subquery()
    )
    query = (
        sa.select(
            *row_columns.of(TrajectorySummary, tables.trajectories, run=_r.name, turns=counted)
        )
        .select_from(tables.trajectories.outerjoin(tables.runs))
        .order_by(_t.trajectory_id.desc())
        .limit(limit)
    )
    for column, value in ((_r.name, run), (_t.label, label), (_t.problem_id, problem_id)):
        if value is not None:
            query = query.where(column == value)
    if before is not None:
        query = query.where(_t.trajectory_id < before)
    return [TrajectorySummary(**row._mapping) for row in connection.execute(query)]


def _turns(connection: sa.Connection, trajectory_id: UUID) -> tuple[Turn, ...]:
    rows = connection.execute(
        sa.select(
            _u.turn_index, _u.messages_json, _u.response, _u.job_id, tables.candidates.c.source
        )
        .select_from(tables.turns.outerjoin(tables.jobs).outerjoin(tables.candidates))
        .where(_u.trajectory_id == trajectory_id)
        .order_by(_u.turn_index)
    )
    return tuple(_as_turn(row) for row in rows)


def _row(trajectory_id: UUID, index: int, turn: Turn) -> dict[str, Any]:
    return {
        "turn_id": ids.new_id(),
        "trajectory_id": trajectory_id,
        "turn_index": index,
        "messages_json": _dump(turn.messages),
        "response": source_text.encode(turn.response),
        "job_id": turn.job_id,
    }


def _as_turn(row: Any) -> Turn:
    return Turn(
        messages=tuple(Message(**message) for message in json.loads(row.messages_json)),
        response=source_text.decode(row.response),
        candidate=None if row.source is None else source_text.decode(row.source),
        turn_index=row.turn_index,
        job_id=row.job_id,
    )


def _dump(messages: Sequence[Message]) -> str:
    """ASCII only: NUL and lone surrogates are escaped, and PostgreSQL sees nothing
    that it refuses.
    """
    return json.dumps([vars(message) for message in messages], ensure_ascii=True)
