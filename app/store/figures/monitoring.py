"""STORE: figures for monitoring, read often and at any size: from roll-ups and
partial indexes, never a whole table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from app import routing
from app.domain.job import JobState
from app.domain.verdict import Label
from app.store import tables
from app.store.figures import run_figures
from app.store.queue import devices
from app.store.tables import device_events, evaluations, hourly_counts, hourly_stages, jobs

HACK_HOURS = 24
"""Over how many of the last hours the share of hacks is taken."""
CANARIES = 50
"""Number of latest evaluations that are read for the device's known kernel: each
costs reading its measurement.
"""

_h = hourly_counts.c
_d = tables.devices.c


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """Open jobs of one queue and priority."""

    queue: str
    priority: str
    queued: int
    running: int
    oldest_s: float
    """Waiting time of the oldest queued one; 0 where none waits."""


@dataclass(frozen=True, kw_only=True)
class Canary:
    """The device's known kernel, the last time that it ran."""

    node: str
    device_id: str
    drift: float
    """Slower (or, negative, faster) than it should be, as a share: 0.02 is 2 %."""


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """Everything that is exported."""

    queues: Sequence[Waiting]
    evaluations: dict[tuple[str, str], int]
    """By device class and status, since ever."""
    stages: dict[tuple[str, str], dict[int, int]]
    """By device class and stage: bucket of `hourly_stages` → evaluations, since ever."""
    recent_evaluations: int
    """Evaluations of the last HACK_HOURS hours, of every status, as in every rate of hacks."""
    recent_hacks: int
    failed: dict[str, int]
    """Jobs ended by infrastructure faults, by kind, in total."""
    devices: Sequence[devices.Device]
    heartbeat_age_s: dict[UUID, float]
    """By the device's id."""
    changes: dict[tuple[str, str, str], int]
    """Changes of a device's state by people or workers, by device class, device and new state."""
    canaries: Sequence[Canary]
    runs: Sequence[run_figures.Recent]


def read(connection: sa.Connection) -> Metrics:
    """All of it; use a snapshot, so that the numbers belong together."""
    recent, hacks = _recent(connection)
    return Metrics(
        queues=_queues(connection),
        evaluations=_evaluations(connection),
        stages=_stages(connection),
        recent_evaluations=recent,
        recent_hacks=hacks,
        failed=_failed(connection),
        devices=devices.listed(connection),
        heartbeat_age_s=_heartbeats(connection),
        changes=_changes(connection),
        canaries=_canaries(connection),
        runs=run_figures.latest(connection),
    )


def _queues(connection: sa.Connection) -> list[Waiting]:
    queued = jobs.c.state == JobState.QUEUED
    oldest_s = sa.extract("epoch", sa.func.now() - sa.func.min(jobs.c.created_at).filter(queued))
    key = (jobs.c.device_class, jobs.c.device, jobs.c.priority)
    counts = (sa.func.count().filter(queued), sa.func.count().filter(~queued), oldest_s)
    query = (
        sa.select(*key, *counts)
        .where(jobs.c.state.in_((JobState.QUEUED, JobState.RUNNING)))
        .group_by(*key)
    )
    return [
        Waiting(
            queue=routing.queue_for(device_class, device),
            priority=priority,
            queued=waiting,
            running=running,
            oldest_s=float(oldest or 0.0),
        )
        for device_class, device, priority, waiting, running, oldest in connection.execute(query)
    ]


def _evaluations(connection: sa.Connection) -> dict[tuple[str, str], int]:
    query = sa.select(_h.device_class, _h.status, sa.func.sum(_h.evaluations)).group_by(
        _h.device_class, _h.status
    )
    return {
        (device_class, status): int(number)
        for device_class, status, number in connection.execute(query)
    }


def _stages(connection: sa.Connection) -> dict[tuple[str, str], dict[int, int]]:
    s = hourly_stages.c
    key = (s.device_class, s.stage, s.bucket)
    found: dict[tuple[str, str], dict[int, int]] = {}
    for device_class, stage, bucket, number in connection.execute(
        sa.select(*key, sa.func.sum(s.evaluations)).group_by(*key)
    ):
        found.setdefault((device_class, stage), {})[bucket] = int(number)
    return found


def _recent(connection: sa.Connection) -> tuple[int, int]:
    label = sa.func.coalesce(sa.func.nullif(_h.human_verdict, ""), _h.label)
    total = sa.func.coalesce(sa.func.sum(_h.evaluations), 0)
    hacks = sa.func.coalesce(sa.func.sum(_h.evaluations).filter(label == Label.HACK), 0)
    since = sa.func.now() - sa.func.make_interval(0, 0, 0, 0, HACK_HOURS)
    row = connection.execute(sa.select(total, hacks).where(_h.hour >= since)).one()
    return int(row[0]), int(row[1])


def _failed(connection: sa.Connection) -> dict[str, int]:
    failed = sa.select(jobs.c.error_kind, sa.func.count()).where(sa.text("state = 'failed'"))
    return {row[0]: row[1] for row in connection.execute(failed.group_by(jobs.c.error_kind))}


def _heartbeats(connection: sa.Connection) -> dict[UUID, float]:
    age_s = sa.extract("epoch", sa.func.now() - _d.heartbeat_at)
    return {row[0]: float(row[1]) for row in connection.execute(sa.select(_d.device_id, age_s))}


def _changes(connection: sa.Connection) -> dict[tuple[str, str, str], int]:
    device = _d.node + "." + sa.cast(_d.device_index, sa.Text)
    key = (_d.device_class, device, device_events.c.state)
    query = (
        sa.select(*key, sa.func.count())
        .select_from(device_events.join(tables.devices))
        .group_by(*key)
    )
    return {(row[0], row[1], row[2]): row[3] for row in connection.execute(query)}


def _canaries(connection: sa.Connection) -> list[Canary]:
    measurement: Any = evaluations.c.measurement
    latest = (
        sa.select(
            measurement[("timing", "canary")].label("canary"),
            measurement["environment"].label("environment"),
        )
        .order_by(evaluations.c.created_at.desc(), evaluations.c.evaluation_id.desc())
        .limit(CANARIES)
        .subquery()
    )
    newest: dict[tuple[str, str], Canary] = {}
    for canary, environment in connection.execute(sa.select(latest.c.canary, latest.c.environment)):
        key = (environment["node"], environment["device_id"])
        if canary is not None and key not in newest:
            slowest_us = max(canary["before_us"], canary["after_us"])
            drift = slowest_us / canary["expected_us"] - 1
            newest[key] = Canary(node=key[0], device_id=key[1], drift=drift)
    return list(newest.values())
