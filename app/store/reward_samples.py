"""STORE: measurements behind rewards: the latest turns of a run, and the turns of trajectories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from app.domain import reward
from app.store.tables import attempts, evaluations

MOST_TURNS = 2_000
"""Turns of one run that are read: some steps of a trainer.  The figures name the
turns they are over.
"""

_MEASURED = ("compiled", "coverage_time", "coverage_count")


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One turn of a run."""

    trajectory_id: UUID
    problem_id: UUID
    turn_index: int
    result: Mapping[str, object]
    """Keys of a result (app.domain.result) that rewards read."""


def latest(
    connection: sa.Connection, run_id: UUID, limit: int = MOST_TURNS
) -> tuple[list[Sample], bool]:
    """Turns of the latest trajectories of a run, and whether there are more.  A
    trajectory is whole or left out.

    An answer without code is a failure; a turn that no device could evaluate is read
    too, and has no reward.
    """
    newest = (
        sa.select(attempts)
        .where(attempts.c.run_id == run_id, attempts.c.trajectory_id.is_not(None))
        .order_by(attempts.c.trajectory_id.desc(), attempts.c.turn_index)
        .limit(limit + 1)
        .subquery()
    )
    query = (
        sa.select(newest, *(evaluations.c[name] for name in _MEASURED))
        .select_from(
            newest.outerjoin(evaluations, evaluations.c.evaluation_id == newest.c.evaluation_id)
        )
        .order_by(newest.c.trajectory_id.desc(), newest.c.turn_index)
    )
    found = [_sample(row) for row in connection.execute(query).mappings()]
    if len(found) <= limit:
        return found, False
    cut = found[-1].trajectory_id
    whole = [sample for sample in found if sample.trajectory_id != cut]
    return whole or found[:limit], True


def of_trajectories(
    connection: sa.Connection, trajectory_ids: Sequence[UUID]
) -> dict[UUID, list[Sample]]:
    """Trajectory → its turns that are evaluated or have no code, in order; none for
    one without such turns.
    """
    query = (
        sa.select(attempts, *(evaluations.c[name] for name in _MEASURED))
        .select_from(
            attempts.outerjoin(evaluations, evaluations.c.evaluation_id == attempts.c.evaluation_id)
        )
        .where(
            attempts.c.trajectory_id == sa.any_(sa.literal(list(trajectory_ids), ARRAY(sa.Uuid)))
        )
        .order_by(attempts.c.trajectory_id, attempts.c.turn_index)
    )
    found: dict[UUID, list[Sample]] = {}
    for row in connection.execute(query).mappings():
        found.setdefault(row["trajectory_id"], []).append(_sample(row))
    return found


def _sample(row: sa.RowMapping) -> Sample:
    measured = {name: row[name] for name in ("valid", "status", "correct", "speedup", *_MEASURED)}
    return Sample(
        trajectory_id=row["trajectory_id"],
        problem_id=row["problem_id"],
        turn_index=row["turn_index"],
        result=(
            reward.WITHOUT_CODE
            if row["evaluation_id"] is None
            else measured | {"verdict": row["label"]}
        ),
    )
