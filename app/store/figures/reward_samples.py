"""STORE: measurements behind rewards: the latest turns of a run, and the turns of trajectories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from app.domain import reward
from app.store.tables import attempts, evaluations, nodes
from app.store.trajectory import attempt_lines

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
    line: str
    """Key of its line (app.store.trajectory.attempt_lines)."""
    step: int
    """Position in the line, from 0."""
    result: Mapping[str, object]
    """Keys of a result (app.domain.result) that rewards read."""


def latest(
    connection: sa.Connection, run_id: UUID, limit: int = MOST_TURNS
) -> tuple[list[Sample], bool]:
    """Turns of the latest trajectories of a run, and whether there are more.  A
    line of attempts is whole or left out.

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
    found = [_sample(row) for row in connection.execute(_with_lines(newest)).mappings()]
    if len(found) <= limit:
        return found, False
    begun = {sample.line for sample in found if sample.step == 0} - {found[-1].line}
    whole = [sample for sample in found if sample.line in begun]
    return whole or found[:limit], True


def of_trajectories(
    connection: sa.Connection, trajectory_ids: Sequence[UUID]
) -> dict[UUID, list[Sample]]:
    """Trajectory → its turns that are evaluated or have no code, in order; none for
    one without such turns.
    """
    these = sa.any_(sa.literal(list(trajectory_ids), ARRAY(sa.Uuid)))
    wanted = sa.select(attempts).where(attempts.c.trajectory_id == these).subquery()
    found: dict[UUID, list[Sample]] = {}
    for row in connection.execute(_with_lines(wanted)).mappings():
        found.setdefault(row["trajectory_id"], []).append(_sample(row))
    return found


def _with_lines(wanted: sa.Subquery) -> sa.Select[Any]:
    """These attempts with their measurements and their places in lines, the newest trajectories
    first, each in the order of its turns.
    """
    measured = wanted.outerjoin(evaluations, evaluations.c.evaluation_id == wanted.c.evaluation_id)
    own = sa.cast(wanted.c.trajectory_id, sa.Text)
    return (
        sa.select(
            wanted,
            *(evaluations.c[name] for name in _MEASURED),
            sa.func.coalesce(attempt_lines.SAMPLE, own).label("line"),
            sa.func.coalesce(nodes.c.turn, wanted.c.turn_index).label("step"),
        )
        .select_from(attempt_lines.joined(measured, wanted.c.run_id, wanted.c.turn_id))
        .order_by(wanted.c.trajectory_id.desc(), wanted.c.turn_index)
    )


def _sample(row: sa.RowMapping) -> Sample:
    measured = {name: row[name] for name in ("valid", "status", "correct", "speedup", *_MEASURED)}
    return Sample(
        trajectory_id=row["trajectory_id"],
        problem_id=row["problem_id"],
        line=row["line"],
        step=row["step"],
        result=(
            reward.WITHOUT_CODE
            if row["evaluation_id"] is None
            else measured | {"verdict": row["label"]}
        ),
    )
