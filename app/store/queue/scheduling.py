"""STORE: choice of the next job for a device.

A message is the permission to claim one job.  Which one is decided here, when a device is free:

1. by rank: `high` before `normal` before `low`; a job rises one rank for every `ageing_s` seconds
   that it waits, so that nothing starves;
2. by fair share: among jobs of one rank, the run of which fewest jobs are running, then the run
   that was served longest ago; jobs without a run are one share together;
3. by age.

All of it is derived from the jobs themselves.  Only the oldest job of each run and
priority can be next, so a claim reads one index entry for each of them
(`ix_jobs_queue`), however many jobs wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from app import routing
from app.domain.device import CLOSED, DeviceId
from app.domain.job import JobState, Limits
from app.store import tables
from app.store.queue import jobs, leases
from app.store.tables.jobs import SHARE

AGEING_S = 300.0
"""A `low` job that waited for ten minutes is as urgent as a new `high` one."""

LISTS = 8
"""Number of best lists tried in one go: other workers may hold the heads of the first ones."""

DUE = (
    "(not_before IS NULL OR not_before <= now() OR not_before > now() + interval"
    f" '{jobs.FUTURE_S} s')"
)
"""See `jobs.is_due`."""

_j = tables.jobs.c


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Result of using a permission."""

    lease: leases.Lease | None = None
    owed: bool = False
    """Jobs wait in the queue that gave the permission, and none of them was taken, because one of
    another queue was due or because other transactions hold their rows; or one was taken that no
    message had left for: the permission must be given again.
    """
    faults: int = 0
    """Evaluations in a row that had failed on the device by Assay's fault before this claim."""
    refused: str | None = None
    """The device takes no jobs now: why."""


@dataclass(frozen=True, kw_only=True)
class ClaimSettings:
    """Settings of a claim."""

    owner: str
    """Unique to this claim."""
    lease_s: float
    limits: Limits
    ageing_s: float = AGEING_S


def claim(connection: sa.Connection, place: DeviceId, queue: str, terms: ClaimSettings) -> Claim:
    """Claim the job that is due on the device; none if no job waits, or the device is closed.

    `queue`: queue of the message.  The job may belong to another queue that the device serves; then
    a message is owed to `queue`.  The result is stored in the caller's transaction.
    """
    pins = routing.served(place)
    look = _look(connection, place, list(pins.values()), terms.ageing_s)
    if look.state in CLOSED:
        owed = pins[queue] != place.device and _waits(connection, place, pins[queue])
        return Claim(refused=str(look.state), owed=owed)
    lease, pin = _take_next(connection, place, list(pins.values()), terms, look)
    used_up = lease is not None and pin == pins[queue] and not lease.unsent
    owed = not used_up and _waits(connection, place, pins[queue])
    return Claim(lease=lease, owed=owed, faults=look.faults)


def _take_next(
    connection: sa.Connection,
    place: DeviceId,
    pins: Sequence[str | None],
    terms: ClaimSettings,
    look: _Look,
) -> tuple[leases.Lease | None, str | None]:
    """The job that is due, and its pin."""
    ranked = look.ranked
    while ranked:
        for best in ranked:
            job_id = connection.execute(
                _HEAD, {"device_class": place.device_class, **best}
            ).scalar_one_or_none()
            if job_id is None:
                continue  # others are taking the rest of this list
            lease = leases.claim(connection, job_id, terms.owner, terms.lease_s, terms.limits)
            if lease is not None:
                return lease, best["pin"] or None
            # it was cancelled, or out of attempts, and is settled now: the next in line may have
            # changed
            break
        else:
            return None, None
        ranked = _look(connection, place, pins, terms.ageing_s).ranked
    return None, None


@dataclass(frozen=True)
class _Look:
    """State of a device, and of the queues that it serves."""

    state: str | None
    faults: int
    ranked: list[dict[str, Any]]
    """Lists of jobs (one pin, run and priority each) in the order in which their heads are due."""


def _look(
    connection: sa.Connection, place: DeviceId, pins: Sequence[str | None], ageing_s: float
) -> _Look:
    asked = {
        "node": place.node,
        "device_class": place.device_class,
        "device_index": place.index,
        **{f"pin_{number}": pin or "" for number, pin in enumerate(pins)},
        "ageing_s": ageing_s,
    }
    rows = connection.execute(_LOOK, asked).all()
    keys = ("pin", "share", "priority")
    ranked = [{key: getattr(row, key) for key in keys} for row in rows if row.pin is not None]
    return _Look(state=rows[0].state, faults=rows[0].faults or 0, ranked=ranked)


def _waits(connection: sa.Connection, place: DeviceId, pin: str | None) -> bool:
    conditions = (_j.state == JobState.QUEUED, _j.device_class == place.device_class, jobs.is_due())
    waiting = (
        sa.select(sa.true())
        .where(*conditions, sa.func.coalesce(_j.device, "") == (pin or ""))
        .limit(1)
    )
    return connection.execute(waiting).scalar_one_or_none() is not None


_LOOK = sa.text(f"""
WITH RECURSIVE
  -- One row for each run that waits, found by jumping from one to the next in the index.
  waiting (pin, share) AS (
    SELECT pin, (SELECT {SHARE} FROM jobs
                 WHERE state = 'queued' AND device_class = :device_class AND coalesce(device,
                   '') = pin
                 ORDER BY {SHARE} LIMIT 1)
    FROM unnest(CAST(ARRAY[:pin_0, :pin_1, :pin_2] AS text[])) AS pin
    UNION ALL
    SELECT pin, (SELECT {SHARE} FROM jobs
                 WHERE state = 'queued' AND device_class = :device_class AND coalesce(device,
                   '') = pin
                   AND {SHARE} > waiting.share
                 ORDER BY {SHARE} LIMIT 1)
    FROM waiting WHERE share IS NOT NULL
  ),
  running AS (
    SELECT {SHARE} AS share, count(*) AS jobs FROM jobs
    WHERE state = 'running' AND device_class = :device_class GROUP BY 1
  ),
  served AS (
    SELECT share, (SELECT max(started_at) FROM jobs WHERE {SHARE} = runs.share) AS served_at
    FROM (SELECT DISTINCT share FROM waiting WHERE share IS NOT NULL) AS runs
  ),
  ranked AS (
    SELECT waiting.pin, waiting.share, ranks.priority, row_number() OVER (ORDER BY
      greatest(0, ranks.rank - floor(extract(epoch FROM now() - head.created_at) / :ageing_s)),
      coalesce(running.jobs, 0), served.served_at NULLS FIRST, head.created_at, head.job_id)
        AS place
    FROM waiting
      CROSS JOIN (VALUES {
    ", ".join(f"('{name}', {rank})" for name, rank in routing.PRIORITIES.items())
})
        AS ranks (priority, rank)
      CROSS JOIN LATERAL (
        SELECT created_at, job_id FROM jobs
        WHERE state = 'queued' AND device_class = :device_class AND coalesce(device,
          '') = waiting.pin
          AND {SHARE} = waiting.share AND priority = ranks.priority AND {DUE}
        ORDER BY created_at, job_id LIMIT 1
      ) AS head
      JOIN served USING (share)
      LEFT JOIN running USING (share)
    ORDER BY place LIMIT {LISTS}
  ),
  device AS (
    SELECT state, cardinality(faults) AS faults FROM devices
    WHERE node = :node AND device_class = :device_class AND device_index = :device_index
  )
-- At least one row.  A claim need not outlast a crash of PostgreSQL: the job is in its queue
-- again then, and the result of a lease that the database does not know is refused.
SELECT set_config('synchronous_commit', 'off', true), device.state, device.faults, ranked.pin,
  ranked.share,
  ranked.priority
FROM (VALUES (1)) AS one LEFT JOIN device ON true LEFT JOIN ranked ON true
ORDER BY ranked.place
""")  # noqa: S608 (made of our constants; values are parameters)
"""The three queues of `routing.served`.  Numbers are written out: with a parameter the estimate is
another one than for its values, and PostgreSQL plans the statement anew for each claim (0.9 ms).
"""

_HEAD = sa.text(f"""
SELECT job_id FROM jobs
WHERE state = 'queued' AND device_class = :device_class AND coalesce(device, '') = :pin
  AND {SHARE} = :share AND priority = :priority AND {DUE}
ORDER BY created_at, job_id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
""")  # noqa: S608
"""The oldest job of a list that no other transaction is changing at this moment.

A row that is only being referred to is not skipped: an insert into a table with a
foreign key on `jobs` takes FOR KEY SHARE on the job's row, which FOR UPDATE conflicts
with and FOR NO KEY UPDATE does not.
"""
