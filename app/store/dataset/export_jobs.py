"""STORE: exports that run in a process of their own on request (`app.export.background`)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from app.domain import ids
from app.store.postgres import moments, row_columns
from app.store.tables import export_jobs

SILENT_S = 60
"""Seconds of silence after which a job's process counts as dead: the job may be taken up again."""

STARTS_LOCK = 0x4558504F
"""Advisory lock of the number of jobs: 'EXPO'."""


@dataclass(frozen=True, kw_only=True)
class ExportJob:
    """State of an export job."""

    export_job_id: UUID
    spec: dict[str, Any]
    directory: str
    state: str
    """`queued`, `running`, `finished`, `failed` or `cancelled`; `interrupted` where
    its process was lost.
    """
    stage: str
    done: int
    total: int
    """0 where it is not known."""
    cancel_requested: bool
    export_id: UUID | None
    """Id of the dataset, once it is finished."""
    error: str | None
    created_at: datetime
    heartbeat_at: datetime | None
    finished_at: datetime | None


def add(connection: sa.Connection, spec: dict[str, Any], folder: str) -> UUID:
    """Add a queued job; its dataset goes to a folder in `folder`, named after the job."""
    export_job_id = ids.new_id()
    row = {"export_job_id": export_job_id, "spec": spec, "directory": f"{folder}/{export_job_id}"}
    connection.execute(sa.insert(export_jobs).values(row))
    _announce(connection)
    return export_job_id


def get(connection: sa.Connection, export_job_id: UUID) -> ExportJob | None:
    """The job with this id; None if it does not exist."""
    found = _read(connection, _query().where(export_jobs.c.export_job_id == export_job_id))
    return found[0] if found else None


def recent(connection: sa.Connection, limit: int = 50) -> list[ExportJob]:
    """The latest, newest first."""
    newest_first = (export_jobs.c.created_at.desc(), export_jobs.c.export_job_id.desc())
    return _read(connection, _query().order_by(*newest_first).limit(limit))


def under_way(connection: sa.Connection) -> int:
    """Number of jobs that run, or are about to.  The caller, who may add one, is alone with that
    number until its transaction ends.
    """
    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(STARTS_LOCK)))
    query = sa.select(sa.func.count()).where(
        export_jobs.c.state.in_(("queued", "running")), sa.not_(_LOST)
    )
    return connection.execute(query).scalar_one()


def claim(connection: sa.Connection, export_job_id: UUID) -> bool:
    """Claim the job; True if the caller is to make the dataset: the job is queued,
    or its process has ended.
    """
    free = sa.or_(export_jobs.c.state == "queued", _LOST)
    claimed = (
        _changed(export_job_id)
        .where(free)
        .values(state="running", heartbeat_at=sa.func.now(), stage="starting")
    )
    return bool(connection.execute(claimed).rowcount)


def report(
    connection: sa.Connection, export_job_id: UUID, stage: str, done: int, total: int
) -> bool:
    """Say how far it is; whether it is to be ended."""
    values = {"stage": stage, "done": done, "total": total, "heartbeat_at": sa.func.now()}
    query = _changed(export_job_id).values(values).returning(export_jobs.c.cancel_requested)
    _announce(connection)
    return bool(connection.execute(query).scalar_one())


def finish(connection: sa.Connection, export_job_id: UUID, export_id: UUID) -> None:
    """Mark the job as finished, with its dataset."""
    _end(connection, export_job_id, state="finished", export_id=export_id)


def fail(connection: sa.Connection, export_job_id: UUID, error: str) -> None:
    """Mark the job as failed."""
    _end(connection, export_job_id, state="failed", error=error)


def cancelled(connection: sa.Connection, export_job_id: UUID) -> None:
    """Mark the job as cancelled."""
    _end(connection, export_job_id, state="cancelled")


def cancel(connection: sa.Connection, export_job_id: UUID) -> bool:
    """Request the job's cancellation, which takes effect at once if no process works on
    it; False if the job has ended.
    """
    running = export_jobs.c.state.in_(("queued", "running"))
    if not connection.execute(
        _changed(export_job_id).where(running).values(cancel_requested=True)
    ).rowcount:
        return False
    nobody = sa.or_(export_jobs.c.state == "queued", _LOST)
    connection.execute(
        _changed(export_job_id).where(nobody).values(state="cancelled", finished_at=sa.func.now())
    )
    _announce(connection)
    return True


_LOST = sa.and_(
    export_jobs.c.state.in_(("queued", "running")),
    sa.func.coalesce(export_jobs.c.heartbeat_at, export_jobs.c.created_at) < moments.ago(SILENT_S),
)


def _end(connection: sa.Connection, export_job_id: UUID, **values: Any) -> None:
    running = export_jobs.c.state == "running"
    connection.execute(
        _changed(export_job_id).where(running).values(finished_at=sa.func.now(), **values)
    )
    _announce(connection)


def _changed(export_job_id: UUID) -> sa.Update:
    return sa.update(export_jobs).where(export_jobs.c.export_job_id == export_job_id)


def _query() -> sa.Select[Any]:
    state = sa.case((_LOST, "interrupted"), else_=export_jobs.c.state)
    return sa.select(*row_columns.of(ExportJob, export_jobs, state=state))


def _read(connection: sa.Connection, query: sa.Select[Any]) -> list[ExportJob]:
    return [ExportJob(**row) for row in connection.execute(query).mappings()]


def _announce(connection: sa.Connection) -> None:
    connection.execute(sa.select(sa.func.pg_notify("assay_live", "export_jobs")))
