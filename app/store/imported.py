"""STORE: runs that were made elsewhere: which of their trajectories are here, and what was recorded of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from app.domain.problem import Problem
from app.domain.trajectory import Run
from app.store import trajectories
from app.store.codec import plain
from app.store.tables import problems, runs
from app.store.tables import trajectories as _trajectories

IMPORTER = "importer"
"""Key of a run's settings that says who made it; runs without it are never touched."""


def add_run(
    connection: sa.Connection, *, name: str, model: str | None, importer: str, recorded: dict[str, Any]
) -> UUID:
    """Id of the run of that name; what was recorded of it is brought up to date where the same importer made it.

    Raises RunConflictError where a run of that name is not of that importer."""
    settings = {IMPORTER: importer, **plain(recorded)}
    mine = sa.and_(runs.c.name == name, runs.c.settings[IMPORTER].astext == importer)
    updated = sa.update(runs).where(mine).values(model=model, settings=settings).returning(runs.c.run_id)
    run_id: UUID | None = connection.execute(updated).scalar_one_or_none()
    if run_id is not None:
        return run_id
    return trajectories.add_run(connection, Run(name=name, model=model, settings=settings))


def labels(connection: sa.Connection, run_id: UUID) -> frozenset[str]:
    """Labels of the run's trajectories."""
    query = sa.select(_trajectories.c.label).where(_trajectories.c.run_id == run_id, _trajectories.c.label.is_not(None))
    return frozenset(connection.scalars(query))


def set_licences(connection: sa.Connection, licences: Mapping[UUID, str]) -> None:
    """Say under which terms problems are; the last word counts."""
    if licences:
        changed = sa.update(problems).where(problems.c.problem_id == sa.bindparam("wanted"))
        statement = changed.values(licence=sa.bindparam("terms"))
        rows = [{"wanted": problem_id, "terms": licence} for problem_id, licence in sorted(licences.items())]
        connection.execute(statement, rows)


def numbered(connection: sa.Connection, source_set: str) -> dict[tuple[int, int], Problem]:
    """(Level, number) → problem, of a source set whose names begin with their number; of two, the newest."""
    columns = (problems.c.name, problems.c.reference, problems.c.level, problems.c.entry_point)
    query = sa.select(*columns).where(problems.c.source_set == source_set, problems.c.level.is_not(None))
    found: dict[tuple[int, int], Problem] = {}
    for name, reference, level, entry_point in connection.execute(query.order_by(problems.c.created_at)):
        number, _, _ = name.partition("_")
        if number.isdigit():
            found[level, int(number)] = Problem(
                name=name, reference=reference, source_set=source_set, level=level, entry_point=entry_point
            )
    return found
