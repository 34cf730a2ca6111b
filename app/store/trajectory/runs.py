"""STORE: runs as they are listed and read; `app.store.trajectory.trajectories` adds them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from app.domain import freeform
from app.store import tables
from app.store.postgres import row_columns

_r = tables.runs.c


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """A run."""

    run_id: UUID
    name: str
    model: str | None
    settings: dict[str, Any]
    step: int | None
    created_at: datetime


def listed(
    connection: sa.Connection, *, name: str | None = None, before: UUID | None = None, limit: int
) -> list[StoredRun]:
    """Runs, newest first: those of before that one; with `name` the one of that name."""
    query = sa.select(*row_columns.of(StoredRun, tables.runs))
    query = query.order_by(_r.run_id.desc()).limit(limit)
    if name is not None:
        query = query.where(_r.name == name)
    if before is not None:
        query = query.where(_r.run_id < before)
    return [_stored(row._mapping) for row in connection.execute(query)]


def get(connection: sa.Connection, run_id: UUID) -> StoredRun | None:
    """The run with this id."""
    columns = row_columns.of(StoredRun, tables.runs)
    row = connection.execute(sa.select(*columns).where(_r.run_id == run_id)).one_or_none()
    return None if row is None else _stored(row._mapping)


def _stored(row: sa.RowMapping) -> StoredRun:
    return StoredRun(**{**row, "settings": freeform.cut(row["settings"])})
