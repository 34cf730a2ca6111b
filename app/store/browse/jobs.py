"""STORE: the list of jobs, newest first, walked by index whatever it is filtered by."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from app.domain.job import JobState
from app.store.browse import paging
from app.store.evaluation import evaluation_rows
from app.store.postgres import row_columns
from app.store.tables import evaluations, jobs, problems, runs, trajectories, turns, verdicts


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Conditions of a list of jobs; an empty one excludes nothing."""

    state: str = ""
    device_class: str = ""
    run: str = ""
    """Exact name of the run with which the job was submitted, or to which a turn
    belongs that asked for it.
    """
    error_kind: str = ""


@dataclass(frozen=True, kw_only=True)
class JobRow:
    """A line of the list of jobs."""

    job_id: UUID
    state: str
    priority: str
    device_class: str
    device: str | None
    attempt: int
    worker: str | None
    """Name of the latest claim: host, process and a random part; None before the first claim."""
    cancel_requested: bool
    error_kind: str | None
    error_message: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    problem_id: UUID
    problem: str
    run_id: UUID | None
    run: str | None
    """Run that the job was submitted with, or else that of the trajectory."""
    evaluation_id: UUID | None
    status: str | None
    verdict: str | None
    """The label that counts; None until it is judged."""
    trajectory_id: UUID | None = None
    """Trajectory of the first turn that asked for this job."""
    turn: int | None = None


_j = jobs.c


def page(
    connection: sa.Connection, asked: Filter, window: paging.Window[UUID]
) -> paging.Page[JobRow]:
    """Jobs that meet the filter, by age."""
    order = paging.Order(value=_j.created_at, key=_j.job_id, nullable=False)
    query = sa.select(_j.job_id).where(*_conditions(connection, asked))
    return order.page(connection, query, lambda ids: _of_ids(connection, ids), window)


def total(connection: sa.Connection, asked: Filter) -> paging.Total:
    """Number of jobs that meet the filter."""
    return paging.total(connection, sa.select(_j.job_id).where(*_conditions(connection, asked)))


def open_counts(connection: sa.Connection) -> dict[str, int]:
    """Jobs that are queued, running and failed: the states that partial indexes hold."""
    states = (JobState.QUEUED, JobState.RUNNING, JobState.FAILED)
    query = (
        sa.select(_j.state, sa.func.count())
        .where(_j.state == sa.bindparam("state"))
        .group_by(_j.state)
    )
    found = {str(state): 0 for state in states}
    for state in states:
        found |= dict(connection.execute(query, {"state": state}).all())
    return found


def error_kinds(connection: sa.Connection) -> list[str]:
    """Every kind of error that a failed job has."""
    query = (
        sa.select(_j.error_kind)
        .where(_j.state == JobState.FAILED)
        .distinct()
        .order_by(_j.error_kind)
    )
    return list(connection.scalars(query))


def _of_ids(connection: sa.Connection, ids: list[UUID]) -> list[JobRow]:
    found = {row["job_id"]: row for row in connection.execute(_rows(ids)).mappings()}
    places = _turns(connection, ids)
    return [JobRow(**_with_run(found[job_id], places.get(job_id, {}))) for job_id in ids]


def _with_run(row: sa.RowMapping, place: dict[str, Any]) -> dict[str, Any]:
    """The columns of a line; a job that was submitted without a run has that of its
    first turn's trajectory.
    """
    return {**row, **place} if row["run_id"] is None else {**place, **row}


def _conditions(connection: sa.Connection, asked: Filter) -> list[sa.ColumnElement[bool]]:
    """A run that does not exist has no jobs."""
    conditions = []
    if asked.state:
        conditions.append(_j.state == asked.state)
    if asked.device_class:
        conditions.append(_j.device_class == asked.device_class)
    if asked.error_kind:
        conditions += [_j.state == JobState.FAILED, _j.error_kind == asked.error_kind]
    if asked.run:
        run_id = connection.scalar(sa.select(runs.c.run_id).where(runs.c.name == asked.run))
        conditions.append(sa.false() if run_id is None else _j.job_id.in_(_of_run(run_id)))
    return conditions


def _of_run(run_id: UUID) -> sa.CompoundSelect[tuple[UUID | None]]:
    """Jobs that were submitted with a run, and those of its trajectories' turns: identical
    submissions share a job, which has the run of the first of them.
    """
    own = sa.select(_j.job_id).where(_j.run_id == run_id)
    asked = (
        sa.select(turns.c.job_id)
        .select_from(
            turns.join(trajectories, trajectories.c.trajectory_id == turns.c.trajectory_id)
        )
        .where(trajectories.c.run_id == run_id, turns.c.job_id.is_not(None))
    )
    return own.union(asked)


def _rows(ids: list[UUID]) -> sa.Select[Any]:
    return (
        sa.select(
            *row_columns.of(
                JobRow,
                jobs,
                evaluations,
                worker=_j.lease_owner,
                problem=problems.c.name,
                run=runs.c.name,
                verdict=evaluation_rows.LABEL,
            )
        )
        .select_from(
            jobs.join(problems, problems.c.problem_id == _j.problem_id)
            .outerjoin(runs, runs.c.run_id == _j.run_id)
            .outerjoin(evaluations, evaluations.c.job_id == _j.job_id)
            .outerjoin(verdicts, evaluation_rows.CURRENT)
        )
        .where(_j.job_id.in_(ids))
    )


def _turns(connection: sa.Connection, ids: list[UUID]) -> dict[UUID, dict[str, Any]]:
    """Job → trajectory, its run, and index of the first turn that asked for the job."""
    key = turns.c.job_id
    query = (
        sa.select(
            key,
            turns.c.trajectory_id,
            turns.c.turn_index.label("turn"),
            runs.c.run_id,
            runs.c.name.label("run"),
        )
        .select_from(
            turns.join(
                trajectories, trajectories.c.trajectory_id == turns.c.trajectory_id
            ).outerjoin(runs, runs.c.run_id == trajectories.c.run_id)
        )
        .where(key.in_(ids))
        .order_by(turns.c.turn_id)
    )
    found: dict[UUID, dict[str, Any]] = {}
    for row in connection.execute(query).mappings():
        found.setdefault(
            row["job_id"], {name: value for name, value in row.items() if name != "job_id"}
        )
    return found
