"""STORE: workers of endpoints that are alive."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from app.store import tables
from app.store.postgres import moments, row_columns

ALIVE_S = 30.0
"""A worker without a sign of life for this long is not counted, in seconds."""
FORGOTTEN_S = 86_400.0
"""The row of a worker that has been silent for so long is deleted, in seconds."""

_w = tables.endpoint_workers.c


@dataclass(frozen=True, kw_only=True)
class EndpointWorker:
    """A worker of one endpoint."""

    worker: str
    endpoint: str
    in_flight: int
    has_key: bool
    """False: the environment variable that its endpoint names is not set there."""
    heartbeat_at: datetime


def beat(
    connection: sa.Connection, *, worker: str, endpoint: str, in_flight: int, has_key: bool
) -> None:
    """A sign of life."""
    values = {
        "endpoint": endpoint,
        "in_flight": in_flight,
        "has_key": has_key,
        "heartbeat_at": sa.func.now(),
    }
    new = insert(tables.endpoint_workers).values(worker=worker, **values)
    connection.execute(new.on_conflict_do_update(index_elements=["worker"], set_=values))
    connection.execute(
        sa.delete(tables.endpoint_workers).where(_w.heartbeat_at < moments.ago(FORGOTTEN_S))
    )


def leave(connection: sa.Connection, worker: str) -> None:
    """The worker has ended."""
    connection.execute(sa.delete(tables.endpoint_workers).where(_w.worker == worker))


def online(connection: sa.Connection, endpoint: str | None = None) -> list[EndpointWorker]:
    """Workers that are alive, of one endpoint or of all."""
    query = (
        sa.select(*row_columns.of(EndpointWorker, tables.endpoint_workers))
        .where(_w.heartbeat_at > moments.ago(ALIVE_S))
        .order_by(_w.endpoint, _w.worker)
    )
    if endpoint is not None:
        query = query.where(_w.endpoint == endpoint)
    return [EndpointWorker(**row._mapping) for row in connection.execute(query)]
