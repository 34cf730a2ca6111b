"""STORE: the first page: queues, devices, throughput and counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any

import sqlalchemy as sa

from app import routing
from app.domain import metrics
from app.domain.verdict import Label, is_shown
from app.store.queue import devices
from app.store.tables import evaluations, hourly_counts, hourly_findings, hourly_stages, jobs

THROUGHPUT_MINUTES = 60
"""Length of the overview's throughput chart."""
GAUGED = 200
"""Latest evaluations that are asked for clocks, temperatures and canaries."""
BUCKETS_PER_OCTAVE = 4
"""Duration buckets per factor of two in `hourly_stages`."""


@dataclass(frozen=True, kw_only=True)
class QueueDepth:
    """Open jobs of one queue and priority."""

    queue: str
    priority: str
    queued: int
    running: int
    oldest_at: datetime | None
    """Creation time of the longest-waiting queued job."""


@dataclass(frozen=True, kw_only=True)
class Gauge:
    """State of a device by its latest evaluations."""

    sm_clock_mhz: int | None
    temperature_c: int | None
    canary: float | None
    """Time of the canary kernel over its expected time: 1 is undisturbed."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Durations of a stage, in milliseconds; from buckets that are 19 % wide."""

    stage: str
    evaluations: int
    p50_ms: float
    p95_ms: float
    p99_ms: float


@dataclass(frozen=True, kw_only=True)
class Hour:
    """One hour's evaluations."""

    hour: datetime
    statuses: dict[str, int]
    hacks: int
    """By the detectors."""
    confirmed: int
    """Hacks that a person has confirmed or found."""
    detectors: dict[str, int]
    """Detector → findings of the label hack."""

    @property
    def evaluations(self) -> int:
        """Evaluations of every status."""
        return sum(self.statuses.values())


@dataclass(frozen=True, kw_only=True)
class Overview:
    """Everything on the first page but the latest evaluations."""

    queues: tuple[QueueDepth, ...]
    devices: tuple[devices.Device, ...]
    gauges: dict[str, Gauge]
    """Worker → state of its device by the latest evaluations."""
    minutes: tuple[tuple[datetime, int], ...]
    """Evaluations stored per minute, the last one unfinished."""
    hours: tuple[Hour, ...]
    """Oldest first, the last one unfinished."""
    stages: tuple[Stage, ...]
    """Over the same hours."""
    statuses: dict[str, int]
    """Status → attempts, of all time; `verdicts` likewise."""
    verdicts: dict[str, int]
    """The labels that count: a person's, where there is one; `clean` of passed evaluations only."""
    hacks: metrics.Share
    """Evaluations that are hacks now, out of all."""
    failed_jobs: int
    failed_lately: int
    """Jobs that failed by Assay's fault in those hours."""


def read(connection: sa.Connection, *, hours: int = 24) -> Overview:
    """The first page: queues, devices, throughput, and counts over the last `hours`
    and of all time.
    """
    first: datetime = connection.execute(
        sa.select(
            sa.func.date_trunc("hour", sa.func.now(), "UTC")
            - sa.func.make_interval(0, 0, 0, 0, hours - 1)
        )
    ).scalar_one()
    counts = _counts(connection)
    judged = [row for row in counts if is_shown(label=_label(row), status=row.status)]
    failed = sa.select(sa.func.count()).select_from(jobs).where(jobs.c.state == "failed")
    return Overview(
        queues=_queues(connection),
        devices=tuple(devices.listed(connection)),
        gauges=_gauges(connection),
        minutes=_throughput(connection),
        hours=_hours(connection, first, hours),
        stages=_stages(connection, first),
        statuses=_by(counts, lambda row: row.status),
        verdicts=_by(judged, _label),
        hacks=metrics.hack_rate(
            sum(int(row.number) for row in counts if _label(row) == Label.HACK),
            sum(int(row.number) for row in counts),
        ),
        failed_jobs=connection.execute(failed).scalar_one(),
        failed_lately=connection.execute(failed.where(jobs.c.finished_at >= first)).scalar_one(),
    )


def _label(row: Any) -> str:
    """The label that counts."""
    return str(row.human_verdict or row.label)


def _counts(connection: sa.Connection) -> Sequence[Any]:
    keys = (hourly_counts.c.status, hourly_counts.c.label, hourly_counts.c.human_verdict)
    query = sa.select(*keys, sa.func.sum(hourly_counts.c.evaluations).label("number")).group_by(
        *keys
    )
    return connection.execute(query).all()


def _by(counts: Sequence[Any], key: Callable[[Any], str]) -> dict[str, int]:
    summed: dict[str, int] = {}
    for row in counts:
        summed[key(row)] = summed.get(key(row), 0) + int(row.number)
    return {name: number for name, number in summed.items() if number}


def _hours(connection: sa.Connection, first: datetime, number: int) -> tuple[Hour, ...]:
    c, f = hourly_counts.c, hourly_findings.c
    hack = c.label == Label.HACK
    counted = connection.execute(
        sa.select(
            c.hour,
            c.status,
            sa.func.sum(c.evaluations).label("number"),
            sa.func.coalesce(sa.func.sum(c.evaluations).filter(hack), 0).label("hacks"),
            sa.func.coalesce(
                sa.func.sum(c.evaluations).filter(c.human_verdict == Label.HACK), 0
            ).label("confirmed"),
        )
        .where(c.hour >= first)
        .group_by(c.hour, c.status)
    ).all()
    found = connection.execute(
        sa.select(f.hour, f.detector, sa.func.sum(f.findings).label("number"))
        .where(f.hour >= first, f.label == Label.HACK)
        .group_by(f.hour, f.detector)
    ).all()
    of_hour: dict[datetime, list[Any]] = {}
    for row in counted:
        of_hour.setdefault(row.hour, []).append(row)
    detectors: dict[datetime, dict[str, int]] = {}
    for hour, detector, total in found:
        if total:
            detectors.setdefault(hour, {})[detector] = int(total)
    moments = [first + timedelta(hours=place) for place in range(number)]
    return tuple(
        _hour(moment, of_hour.get(moment, []), detectors.get(moment, {})) for moment in moments
    )


def _hour(hour: datetime, rows: Sequence[Any], detectors: dict[str, int]) -> Hour:
    """Counts of one hour, from a row for each status."""
    return Hour(
        hour=hour,
        statuses={row.status: int(row.number) for row in rows if row.number},
        hacks=sum(int(row.hacks) for row in rows),
        confirmed=sum(int(row.confirmed) for row in rows),
        detectors=detectors,
    )


def _stages(connection: sa.Connection, first: datetime) -> tuple[Stage, ...]:
    c = hourly_stages.c
    rows = connection.execute(
        sa.select(c.stage, c.bucket, sa.func.sum(c.evaluations).label("number"))
        .where(c.hour >= first)
        .group_by(c.stage, c.bucket)
        .having(sa.func.sum(c.evaluations) > 0)
        .order_by(c.stage, c.bucket)
    )
    buckets: dict[str, list[tuple[int, int]]] = {}
    for row in rows:
        buckets.setdefault(row.stage, []).append((row.bucket, int(row.number)))
    return tuple(
        Stage(
            stage=stage,
            evaluations=sum(number for _, number in each),
            p50_ms=_percentile(each, 0.50),
            p95_ms=_percentile(each, 0.95),
            p99_ms=_percentile(each, 0.99),
        )
        for stage, each in buckets.items()
    )


def _percentile(buckets: Sequence[tuple[int, int]], share: float) -> float:
    """The middle, on a logarithmic scale, of the bucket in which that share is reached."""
    wanted = share * sum(number for _, number in buckets)
    reached = accumulate(number for _, number in buckets)
    bucket = next(
        bucket for (bucket, _), number in zip(buckets, reached, strict=True) if number >= wanted
    )
    return float(2 ** ((bucket + 0.5) / BUCKETS_PER_OCTAVE))


def _gauges(connection: sa.Connection) -> dict[str, Gauge]:
    timing = evaluations.c.measurement["timing"]
    last = timing["blocks"][-1]
    query = (
        sa.select(
            evaluations.c.worker,
            last["sm_clock_mhz"].as_float().label("clock"),
            last["temperature_c"].as_float().label("temperature"),
            timing["canary"]["after_us"].as_float().label("after"),
            timing["canary"]["expected_us"].as_float().label("expected"),
        )
        .order_by(evaluations.c.created_at.desc(), evaluations.c.evaluation_id.desc())
        .limit(GAUGED)
    )
    found: dict[str, Gauge] = {}
    for row in connection.execute(query):
        if row.clock is None and row.expected is None:
            continue
        canary = row.after / row.expected if row.after and row.expected else None
        gauge = Gauge(
            sm_clock_mhz=_whole(row.clock), temperature_c=_whole(row.temperature), canary=canary
        )
        found.setdefault(row.worker, gauge)
    return found


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _queues(connection: sa.Connection) -> tuple[QueueDepth, ...]:
    queued = jobs.c.state == "queued"
    query = (
        sa.select(
            jobs.c.device_class,
            jobs.c.device,
            jobs.c.priority,
            sa.func.count().filter(queued),
            sa.func.count().filter(~queued),
            sa.func.min(jobs.c.created_at).filter(queued),
        )
        .where(jobs.c.state.in_(("queued", "running")))
        .group_by(jobs.c.device_class, jobs.c.device, jobs.c.priority)
    )
    depths = [
        QueueDepth(
            queue=routing.queue_for(kind, device),
            priority=priority,
            queued=waits,
            running=runs_,
            oldest_at=oldest,
        )
        for kind, device, priority, waits, runs_, oldest in connection.execute(query)
    ]
    return tuple(
        sorted(depths, key=lambda depth: (depth.queue, routing.PRIORITIES[depth.priority]))
    )


def _throughput(connection: sa.Connection) -> tuple[tuple[datetime, int], ...]:
    minute = sa.func.date_trunc("minute", evaluations.c.created_at)
    this_minute: datetime = connection.execute(
        sa.select(sa.func.date_trunc("minute", sa.func.now()))
    ).scalar_one()
    first = this_minute - timedelta(minutes=THROUGHPUT_MINUTES - 1)
    query = (
        sa.select(minute, sa.func.count()).where(evaluations.c.created_at >= first).group_by(minute)
    )
    counted: dict[datetime, int] = dict(connection.execute(query).all())
    slots = [first + timedelta(minutes=number) for number in range(THROUGHPUT_MINUTES)]
    return tuple((slot, counted.get(slot, 0)) for slot in slots)
