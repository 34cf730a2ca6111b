"""STORE: datasets that are being made: what was asked for, how far it is, and how it ended.

Whoever makes one (`app.export.errands`) says so every second; one that has gone silent may be taken up by another."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from app.domain import ids
from app.store.tables import export_jobs

SILENT_S = 30.0
"""Whoever makes a dataset and has not been heard of for this long is gone, in seconds."""
ACTIVE = ("queued", "running")

_j = export_jobs.c


@dataclass(frozen=True, kw_only=True)
class ExportJob:
    """A dataset that was asked for."""

    export_job_id: UUID
    spec: dict[str, Any]
    directory: str
    state: str
    stage: str
    done: int
    total: int
    """Of the stage; 0 where it cannot be known."""
    cancel_requested: bool
    export_id: UUID | None
    error: str | None
    heartbeat_at: datetime | None
    silent: bool
    """Running, and not heard of for SILENT_S."""
    created_at: datetime
    finished_at: datetime | None


def add(connection: sa.Connection, *, spec: dict[str, Any], directory: str) -> UUID:
    """Ask for a dataset in that folder."""
    export_job_id = ids.new_id()
    row = {"export_job_id": export_job_id, "spec": spec, "directory": directory}
    connection.execute(sa.insert(export_jobs).values(row))
    _announce(connection)
    return export_job_id


def get(connection: sa.Connection, export_job_id: UUID) -> ExportJob | None:
    """The job of that id."""
    found = _read(connection, sa.select(*_COLUMNS).where(_j.export_job_id == export_job_id))
    return found[0] if found else None


def recent(connection: sa.Connection, limit: int = 20) -> list[ExportJob]:
    """The latest jobs, newest first."""
    query = sa.select(*_COLUMNS).order_by(_j.created_at.desc(), _j.export_job_id.desc()).limit(limit)
    return _read(connection, query)


def active(connection: sa.Connection) -> int:
    """Jobs that are being made or about to be."""
    query = sa.select(sa.func.count()).select_from(export_jobs).where(_j.state.in_(ACTIVE), sa.not_(_SILENT))
    return int(connection.execute(query).scalar_one())


def begin(connection: sa.Connection, export_job_id: UUID) -> ExportJob | None:
    """Take the job: one that waits, or whose maker has gone silent.  None where it is not to be had."""
    taken = (
        sa.update(export_jobs)
        .where(_j.export_job_id == export_job_id, sa.or_(_j.state == "queued", _SILENT))
        .values(state="running", stage="", done=0, total=0, heartbeat_at=sa.func.now())
    )
    if not connection.execute(taken).rowcount:
        return None
    _announce(connection)
    return get(connection, export_job_id)


def progress(connection: sa.Connection, export_job_id: UUID, stage: str, done: int, total: int) -> bool:
    """How far it is; whether it is still wanted."""
    moved = (
        sa.update(export_jobs)
        .where(_j.export_job_id == export_job_id, _j.state == "running")
        .values(stage=stage, done=done, total=total, heartbeat_at=sa.func.now())
        .returning(_j.cancel_requested)
    )
    cancelled = connection.execute(moved).scalar_one_or_none()
    _announce(connection)
    return cancelled is False


def finish(connection: sa.Connection, export_job_id: UUID, export_id: UUID) -> None:
    """The dataset is made and recorded."""
    _end(connection, export_job_id, state="finished", export_id=export_id)


def fail(connection: sa.Connection, export_job_id: UUID, error: str) -> None:
    """It was not made, and why."""
    _end(connection, export_job_id, state="failed", error=error)


def cancelled(connection: sa.Connection, export_job_id: UUID) -> None:
    """It was not made, because somebody asked for that."""
    _end(connection, export_job_id, state="cancelled")


def cancel(connection: sa.Connection, export_job_id: UUID) -> bool:
    """Ask its maker to stop; where there is none, it is over at once.  False where it is over already."""
    asked = sa.update(export_jobs).where(_j.export_job_id == export_job_id, _j.state.in_(ACTIVE))
    if not connection.execute(asked.values(cancel_requested=True)).rowcount:
        return False
    nobody = sa.or_(_j.state == "queued", _SILENT)
    over = sa.update(export_jobs).where(_j.export_job_id == export_job_id, nobody)
    connection.execute(over.values(state="cancelled", finished_at=sa.func.now()))
    _announce(connection)
    return True


_SILENT = sa.and_(
    _j.state == "running", _j.heartbeat_at < sa.func.now() - sa.func.make_interval(0, 0, 0, 0, 0, 0, SILENT_S)
)
_COLUMNS = (*export_jobs.c, sa.func.coalesce(_SILENT, sa.false()).label("silent"))


def _read(connection: sa.Connection, query: sa.Select[Any]) -> list[ExportJob]:
    return [ExportJob(**row) for row in connection.execute(query).mappings()]


def _end(connection: sa.Connection, export_job_id: UUID, **values: object) -> None:
    ended = sa.update(export_jobs).where(_j.export_job_id == export_job_id, _j.state == "running")
    connection.execute(ended.values(finished_at=sa.func.now(), **values))
    _announce(connection)


def _announce(connection: sa.Connection) -> None:
    connection.execute(sa.select(sa.func.pg_notify("assay_live", "exports")))
