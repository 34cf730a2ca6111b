"""STORE: length and pace of a device class's queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from app.domain.device import DeviceState
from app.domain.job import JobState
from app.store import tables
from app.store.postgres import moments
from app.store.queue import devices

COUNTED = 200_000
"""Queued jobs are counted up to this many: a longer line need not be known exactly."""
PACE_S = 120
"""The pace is that of this long, in seconds."""

_j = tables.jobs.c
_e = tables.evaluations.c


@dataclass(frozen=True, kw_only=True)
class QueueDepth:
    """Length of the queue of a device class, and its pace."""

    queued: dict[str, int]
    """Jobs by priority."""
    per_s: float
    """Evaluations stored per second of late; 0 where there were none."""
    online: int = 0
    """Devices of the class that take jobs now."""

    @property
    def total(self) -> int:
        """Jobs of all priorities."""
        return sum(self.queued.values())


def look(connection: sa.Connection, device_class: str) -> QueueDepth:
    """The line as it is now."""
    waiting = (
        sa.select(_j.priority)
        .where(_j.state == JobState.QUEUED, _j.device_class == device_class)
        .limit(COUNTED)
        .subquery()
    )
    counted = sa.select(waiting.c.priority, sa.func.count().label("jobs")).group_by(
        waiting.c.priority
    )
    since = moments.ago(PACE_S)
    stored = sa.select(sa.func.count()).where(
        _e.created_at > since, _e.device_class == device_class
    )
    known = devices.listed(connection)
    return QueueDepth(
        queued={row.priority: row.jobs for row in connection.execute(counted)},
        per_s=connection.execute(stored).scalar_one() / PACE_S,
        online=sum(
            each.state == DeviceState.ONLINE and each.device_class == device_class for each in known
        ),
    )


def unserved(connection: sa.Connection, job_ids: Sequence[UUID]) -> dict[str, int]:
    """Device class → those of the jobs that wait for a device while none of the class is online."""
    served = {
        each.device_class for each in devices.listed(connection) if each.state == DeviceState.ONLINE
    }
    waiting = (
        sa.select(_j.device_class, sa.func.count().label("jobs"))
        .where(
            _j.job_id == sa.any_(sa.literal(list(job_ids), ARRAY(sa.Uuid))),
            _j.state == JobState.QUEUED,
            _j.device_class.not_in(served),
        )
        .group_by(_j.device_class)
    )
    return {row.device_class: row.jobs for row in connection.execute(waiting)}
