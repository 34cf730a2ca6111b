"""STORE: names that clients of the KernelGYM protocol gave to their evaluations, and
figures for their monitoring.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from app.domain.job import JobState
from app.store import tables
from app.store.postgres import jsonb, moments, row_columns
from app.store.queue import jobs

RETRIES_LISTED = 10
"""Jobs that wait for another attempt: enough to see a pattern."""

_t = tables.kernelgym_tasks.c
_j = tables.jobs.c

_CHANGED = ("job_id", "workflow", "asked", "withdrawn")
"""Columns of a name that stands for another job from now on."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One evaluation under the name that a client gave it."""

    task_id: str
    job_id: UUID
    owner: str = ""
    """Id of the user who gave the name; empty at a machine without users.  Two users
    may use the same name.
    """
    workflow: str = "kernelbench"
    asked: dict[str, Any] = field(default_factory=dict)
    """Fields of the request that the answer repeats."""
    withdrawn: bool = False
    """Its submission was withdrawn; its job may go on for others."""


@dataclass(frozen=True, kw_only=True)
class Retry:
    """A job that runs again after its last attempt failed by Assay's fault."""

    task_id: str
    attempts: int
    since: datetime


def get(connection: sa.Connection, owner: str, task_ids: Sequence[str]) -> dict[str, Task]:
    """The owner's tasks that exist, by name."""
    columns = row_columns.of(Task, tables.kernelgym_tasks)
    query = sa.select(*columns).where(_t.owner == owner, _t.task_id.in_(task_ids))
    return {row.task_id: Task(**row._mapping) for row in connection.execute(query)}


def put(connection: sa.Connection, tasks: Sequence[Task]) -> None:
    """Let each of the names stand for its job from now on, in place of any earlier one."""
    if not tasks:
        return
    latest = {(task.owner, task.task_id): task for task in tasks}
    rows = [
        {**vars(latest[key]), "asked": jsonb.plain(latest[key].asked)} for key in sorted(latest)
    ]
    statement = insert(tables.kernelgym_tasks).values(rows)
    newer = {name: statement.excluded[name] for name in _CHANGED}
    connection.execute(
        statement.on_conflict_do_update(index_elements=["owner", "task_id"], set_=newer)
    )


def withdraw(connection: sa.Connection, task: Task) -> JobState | None:
    """Withdraw the submission of the task, once however often it is asked for; the state of its
    job after that, which goes on for other submissions.  None if the job does not exist.
    """
    first = (
        sa.update(tables.kernelgym_tasks)
        .where(_t.owner == task.owner, _t.task_id == task.task_id, _t.job_id == task.job_id)
        .where(sa.not_(_t.withdrawn))
        .values(withdrawn=True)
    )
    if not connection.execute(first).rowcount:
        return jobs.states(connection, [task.job_id]).get(task.job_id)
    found = jobs.withdraw(connection, task.job_id)
    return found.state if found else None


def problematic(connection: sa.Connection, least: int) -> list[tuple[str, int]]:
    """(SHA-256 of the candidate, attempts) of candidates on which `least` attempts
    or more failed by Assay's fault.
    """
    sources = tables.candidates.c
    attempts = sa.func.sum(_j.attempt).label("attempts")
    query = (
        sa.select(sources.source_sha256, attempts)
        .select_from(tables.jobs.join(tables.candidates, _j.candidate_id == sources.candidate_id))
        .where(_j.state == JobState.FAILED)
        .group_by(sources.source_sha256)
        .having(attempts >= least)
        .order_by(attempts.desc(), sources.source_sha256)
    )
    return [(row.source_sha256, int(row.attempts)) for row in connection.execute(query)]


def retries(connection: sa.Connection) -> tuple[int, list[Retry]]:
    """Number of jobs that wait for another attempt, and the first of them."""
    again = (_j.state == JobState.QUEUED, _j.attempt > 0)
    count = connection.execute(
        sa.select(sa.func.count()).select_from(tables.jobs).where(*again)
    ).scalar_one()
    name = sa.func.coalesce(sa.func.min(_t.task_id), sa.cast(_j.job_id, sa.Text)).label("task_id")
    query = (
        sa.select(name, _j.attempt, sa.func.coalesce(_j.started_at, _j.created_at).label("since"))
        .select_from(tables.jobs.outerjoin(tables.kernelgym_tasks, _t.job_id == _j.job_id))
        .where(*again)
        .group_by(_j.job_id)
        .order_by(_j.job_id)
        .limit(RETRIES_LISTED)
    )
    listed = [
        Retry(task_id=row.task_id, attempts=row.attempt, since=row.since)
        for row in connection.execute(query)
    ]
    return count, listed


def over_since(connection: sa.Connection, seconds: float) -> tuple[int, int, float | None]:
    """Evaluations stored in the last `seconds`, those of them that passed, and their
    mean duration in seconds.
    """
    columns = tables.evaluations.c
    since = moments.ago(seconds)
    query = sa.select(
        sa.func.count(),
        sa.func.count().filter(columns.correct),
        sa.func.avg(columns.total_ms) / 1000,
    ).where(columns.created_at >= since)
    count, passed, mean_s = connection.execute(query).one()
    return count, passed, None if mean_s is None else float(mean_s)
