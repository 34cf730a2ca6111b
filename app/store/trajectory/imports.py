"""STORE: imported runs: their stored trajectories, and the records about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from app.domain.problem import Problem
from app.domain.trajectory import Run
from app.store.postgres.jsonb import plain
from app.store.tables import jobs, problems, runs, turns
from app.store.tables import trajectories as _trajectories
from app.store.trajectory import trajectories
from app.store.trajectory.problems import COLUMNS, problem_of

IMPORTER = "importer"
"""Key of a run's settings that names its importer; runs without it are never touched."""


def add_run(
    connection: sa.Connection,
    *,
    name: str,
    model: str | None,
    importer: str,
    recorded: dict[str, Any],
) -> UUID:
    """Id of the run with this name; its record is updated if the same importer made it.  Raises
    RunConflictError if the run has another origin.
    """
    settings = {IMPORTER: importer, **plain(recorded)}
    mine = sa.and_(runs.c.name == name, runs.c.settings[IMPORTER].astext == importer)
    updated = (
        sa.update(runs).where(mine).values(model=model, settings=settings).returning(runs.c.run_id)
    )
    run_id: UUID | None = connection.execute(updated).scalar_one_or_none()
    if run_id is not None:
        return run_id
    return trajectories.add_run(connection, Run(name=name, model=model, settings=settings))


def labels(connection: sa.Connection, run_id: UUID) -> dict[str, set[str]]:
    """Label of each of the run's trajectories → device classes that its candidates
    were queued for.
    """
    joined = _trajectories.outerjoin(
        turns, turns.c.trajectory_id == _trajectories.c.trajectory_id
    ).outerjoin(jobs, jobs.c.job_id == turns.c.job_id)
    query = sa.select(_trajectories.c.label, jobs.c.device_class).select_from(joined).distinct()
    kept = query.where(_trajectories.c.run_id == run_id, _trajectories.c.label.is_not(None))
    found: dict[str, set[str]] = {}
    for label, device_class in connection.execute(kept):
        found.setdefault(label, set()).update(filter(None, [device_class]))
    return found


def label_for(label: str, device_class: str, there: Mapping[str, set[str]]) -> str | None:
    """The label to store a sample under; None where it is stored and queued for that
    device class already.

    A sample that was queued for other classes alone is stored again as
    `<label>@<class>`: a turn has one job.
    """
    if label not in there:
        return label
    again = f"{label}@{device_class}"
    if not there[label] or device_class in there[label] or again in there:
        return None
    return again


def set_sources(
    connection: sa.Connection, said: Mapping[UUID, tuple[str | None, dict[str, Any] | None]]
) -> None:
    """Store the prompt (messages as JSON) and the claims of a problem's source; the
    last call counts.
    """
    rows = [
        {
            "wanted": problem_id,
            "asked": prompt_json,
            "said": None if claims is None else plain(claims),
        }
        for problem_id, (prompt_json, claims) in sorted(said.items())
        if prompt_json is not None or claims is not None
    ]
    if rows:
        changed = sa.update(problems).where(problems.c.problem_id == sa.bindparam("wanted"))
        statement = changed.values(
            prompt_json=sa.bindparam("asked"), claims=sa.bindparam("said", type_=JSONB)
        )
        connection.execute(statement, rows)


def named(connection: sa.Connection, name: str) -> Problem | None:
    """The stored problem of an id, or of `<source set>/<name>`; of two of one name the newest."""
    query = sa.select(*COLUMNS).order_by(problems.c.created_at.desc()).limit(1)
    try:
        query = query.where(problems.c.problem_id == UUID(name))
    except ValueError:
        source_set, _, own = name.partition("/")
        query = query.where(problems.c.source_set == source_set, problems.c.name == own)
    found = connection.execute(query).one_or_none()
    return None if found is None else problem_of(found)


def set_licences(connection: sa.Connection, licences: Mapping[UUID, str]) -> None:
    """Store the licences of problems; the last call counts."""
    if licences:
        changed = sa.update(problems).where(problems.c.problem_id == sa.bindparam("wanted"))
        statement = changed.values(licence=sa.bindparam("terms"))
        rows = [
            {"wanted": problem_id, "terms": licence}
            for problem_id, licence in sorted(licences.items())
        ]
        connection.execute(statement, rows)


def numbered(connection: sa.Connection, source_set: str) -> dict[tuple[int, int], Problem]:
    """(Level, number) → problem, of a source set with names that begin with their
    number; of two, the newest.
    """
    query = sa.select(*COLUMNS).where(
        problems.c.source_set == source_set, problems.c.level.is_not(None)
    )
    found: dict[tuple[int, int], Problem] = {}
    for row in connection.execute(query.order_by(problems.c.created_at)):
        number, _, _ = row.name.partition("_")
        if number.isdigit():
            found[row.level, int(number)] = problem_of(row)
    return found
