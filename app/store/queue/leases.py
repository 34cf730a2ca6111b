"""STORE: leases of running jobs: claim, extend, finish, and give back.

A claim is fenced by its attempt number and its owner: a worker that lost the lease
can neither extend it nor store a result.  Times are the database's, so that the
clocks of hosts do not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from app.domain.job import Job, JobOptions, JobState, Limits
from app.store import tables
from app.store.postgres import moments
from app.store.queue import job_notifications
from app.store.queue.jobs import past

_j = tables.jobs.c

INFRASTRUCTURE = "infrastructure"
"""`error_kind` of a job that Assay's own faults have failed as often as the limits
allow (app/domain/job.py).
"""

INTERNAL = "internal"
"""`error_kind` of a job on which Assay's code raised an unexpected error, which
another attempt would raise again.
"""

EXHAUSTED = "attempts_exhausted"
"""`error_kind` of a job all of whose attempts ended without a result."""

USUAL = Limits()

SICK_DEVICES = "sick_devices"
"""`error_kind` of a job at which one device after another was found unhealthy."""

FAULTS = (INFRASTRUCTURE, INTERNAL, EXHAUSTED, SICK_DEVICES)
"""Every `error_kind`."""

SICK_DEVICES_LIMIT = 2
"""The first device that is found unhealthy while it runs a job is not the job's fault.  The second
may be: the job is set aside, instead of taking the whole fleet down.
"""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 60.0
"""First and longest pause, in seconds, before a job that an infrastructure fault cut short runs
again.  The pause doubles each time and varies at random by half of itself, so that jobs cut short
together do not run together again.
"""


@dataclass(frozen=True, kw_only=True)
class Lease:
    """The right to evaluate a job, as long as it is extended."""

    job: Job
    owner: str
    """Unique to this claim."""
    unsent: bool = False
    """No message had left for the job since it was queued again: the permission that
    took it was another job's.
    """


@dataclass(frozen=True, kw_only=True)
class Pulse:
    """State of a lease, found when it is extended."""

    held: bool
    """False when the lease is lost: another worker may run the job."""
    cancel_requested: bool


@dataclass(frozen=True, kw_only=True)
class Finished:
    """Facts of the jobs table that belong to an evaluation."""

    baseline: str
    queue_ms: float
    """Milliseconds from submission to claim."""
    total_ms: float
    """Milliseconds from claim to stored result."""


def claim(
    connection: sa.Connection, job_id: UUID, owner: str, lease_s: float, limits: Limits = USUAL
) -> Lease | None:
    """Claim a job; None if it is finished, cancelled, or running under a valid lease.

    A lapsed lease is an interruption.  A job without remaining attempts or interruptions fails
    here, and one with a requested cancellation is cancelled.
    """
    taken = (
        sa.update(tables.jobs)
        .where(_j.job_id == job_id, sa.or_(_j.state == JobState.QUEUED, _lapsed()))
        .where(sa.not_(_is_used_up(limits, _interrupted())), sa.not_(_j.cancel_requested))
        .where(
            _j.problem_id == tables.problems.c.problem_id,
            _j.candidate_id == tables.candidates.c.candidate_id,
        )
        .values(
            state=JobState.RUNNING,
            attempt=_j.attempt + 1,
            interruptions=_interrupted(),
            not_before=None,
            lease_until=moments.ahead(lease_s),
            lease_owner=owner,
            started_at=sa.func.now(),
        )
        .returning(
            _j.attempt,
            _j.device_class,
            _j.options,
            _j.sent_at.is_(None).label("unsent"),
            tables.problems.c.reference,
            tables.problems.c.entry_point,
            tables.candidates.c.source,
            tables.candidates.c.backend,
        )
    )
    row = connection.execute(taken).one_or_none()
    if row is None:
        _settle(connection, limits, _j.job_id == job_id)
        return None
    return Lease(job=_as_job(job_id, row), owner=owner, unsent=row.unsent)


def extend_lease(connection: sa.Connection, lease: Lease, lease_s: float) -> Pulse:
    """Hold the job for another `lease_s` seconds, and learn whether to go on."""
    extended = (
        sa.update(tables.jobs)
        .where(_held(lease))
        .values(lease_until=moments.ahead(lease_s))
        .returning(_j.cancel_requested)
    )
    row = connection.execute(extended).one_or_none()
    return Pulse(held=row is not None, cancel_requested=row is not None and row.cancel_requested)


def finish(connection: sa.Connection, lease: Lease) -> Finished | None:
    """Running → finished, or None where the lease is lost.  Part of
    `evaluations.add`, in its transaction.
    """
    finished = (
        sa.update(tables.jobs)
        .where(_held(lease))
        .values(state=JobState.FINISHED, lease_until=None, finished_at=sa.func.now())
        .returning(
            _j.options["baseline"].astext.label("baseline"),
            _milliseconds(_j.started_at - _j.created_at).label("queue_ms"),
            _milliseconds(sa.func.now() - _j.started_at).label("total_ms"),
            job_notifications.announcement(_j.job_id),
        )
    )
    row = connection.execute(finished).one_or_none()
    return (
        None
        if row is None
        else Finished(baseline=row.baseline, queue_ms=row.queue_ms, total_ms=row.total_ms)
    )


def fail(connection: sa.Connection, lease: Lease, kind: str, message: str) -> bool:
    """Running → failed, by Assay's fault and for good.  False where the lease is lost."""
    return _leave(connection, lease, state=JobState.FAILED, error_kind=kind, error_message=message)


def release(
    connection: sa.Connection,
    lease: Lease,
    limits: Limits,
    kind: str,
    message: str,
    *,
    cut_short: bool = False,
) -> JobState | None:
    """Give the job back after a fault of Assay: queued after a pause, for the sweep to send, or
    failed if this was the last attempt.  `cut_short`: by the death of one of Assay's processes,
    which counts as an interruption.

    None where the lease is lost.
    """
    interruptions = _j.interruptions + int(cut_short)
    used_up = connection.execute(
        sa.select(_is_used_up(limits, interruptions)).where(_held(lease))
    ).scalar_one_or_none()
    if used_up is None:
        return None
    if used_up:
        return JobState.FAILED if fail(connection, lease, kind, message) else None
    times = _j.interruptions if cut_short else _j.attempt - 1 - _j.interruptions
    return _queue_again(connection, lease, _after(times), interruptions=interruptions)


def give_back(connection: sa.Connection, lease: Lease, *, faults: int = 0) -> JobState | None:
    """Queue the job again as if this attempt had not been: its device was taken out of service, is
    being emptied, or could not begin, for the time number `faults` in a row.

    None where the lease is lost.
    """
    not_before = _after(sa.literal(faults - 1)) if faults else sa.func.now()
    return _queue_again(connection, lease, not_before, attempt=_j.attempt - 1)


def give_back_sick(connection: sa.Connection, lease: Lease, message: str) -> JobState | None:
    """Queue the job again after its device was found unhealthy; fail it if that happened
    before.  None if the lease is lost.
    """
    counted = sa.update(tables.jobs).where(_held(lease)).values(sick_devices=_j.sick_devices + 1)
    sick = connection.execute(counted.returning(_j.sick_devices)).scalar_one_or_none()
    if sick is None:
        return None
    if sick < SICK_DEVICES_LIMIT:
        return give_back(connection, lease)
    return JobState.FAILED if fail(connection, lease, SICK_DEVICES, message) else None


def stopped(connection: sa.Connection, lease: Lease) -> JobState | None:
    """Running → cancelled, after the evaluation was stopped; or queued again, where the same
    content was submitted once more since.  None where the lease is lost.
    """
    requested = connection.execute(
        sa.select(_j.cancel_requested).where(_held(lease)).with_for_update(key_share=True)
    )
    if requested.scalar_one_or_none() is False:
        return give_back(connection, lease)
    return JobState.CANCELLED if _leave(connection, lease, state=JobState.CANCELLED) else None


def settle_lapsed(connection: sa.Connection, limits: Limits) -> None:
    """Queue every running job with a lapsed lease again after a pause; or fail it,
    or cancel it if requested.
    """
    _settle(connection, limits, sa.true())
    again = (
        sa.update(tables.jobs)
        .where(_j.job_id.in_(_locked(_lapsed())))
        .values(
            state=JobState.QUEUED,
            interruptions=_j.interruptions + 1,
            not_before=_after(_j.interruptions),
            lease_until=None,
            lease_owner=None,
            sent_at=None,
        )
    )
    connection.execute(again)


def end_pauses(connection: sa.Connection, device_class: str) -> None:
    """Make queued retries of the class runnable now: the fault behind them has been mended."""
    pausing = (
        _j.state == JobState.QUEUED,
        _j.device_class == device_class,
        _j.not_before > sa.func.now(),
    )
    connection.execute(
        sa.update(tables.jobs)
        .where(_j.job_id.in_(_locked(*pausing)))
        .values(not_before=sa.func.now())
    )


def _as_job(job_id: UUID, row: Any) -> Job:
    return Job(
        job_id=job_id,
        reference=row.reference,
        candidate=row.source,
        backend=row.backend,
        entry_point=row.entry_point,
        device_class=row.device_class,
        options=JobOptions(**row.options),
        attempt=row.attempt,
    )


def _settle(connection: sa.Connection, limits: Limits, which: sa.ColumnElement[bool]) -> None:
    """Fail jobs without attempts or interruptions left and cancel those asked to stop,
    where no worker runs them any more.
    """
    idle = sa.or_(_j.state == JobState.QUEUED, _lapsed())
    cancelled = (
        sa.update(tables.jobs)
        .where(_j.job_id.in_(_locked(which, idle, _j.cancel_requested)))
        .values(state=JobState.CANCELLED, lease_until=None, finished_at=sa.func.now())
        .returning(_j.job_id)
    )
    tried = sa.cast(_j.attempt, sa.Text)
    failed = (
        sa.update(tables.jobs)
        .where(_j.job_id.in_(_locked(which, idle, _is_used_up(limits, _interrupted()))))
        .values(
            state=JobState.FAILED,
            lease_until=None,
            finished_at=sa.func.now(),
            error_kind=EXHAUSTED,
            error_message=tried
            + " attempts ended without a result; the last owner was "
            + sa.func.coalesce(_j.lease_owner, "unknown"),
        )
        .returning(_j.job_id)
    )
    for statement in (cancelled, failed):
        for job_id in connection.execute(statement).scalars():
            job_notifications.announce(connection, job_id)


def _leave(connection: sa.Connection, lease: Lease, **values: object) -> bool:
    left = (
        sa.update(tables.jobs)
        .where(_held(lease))
        .values(lease_until=None, finished_at=sa.func.now(), **values)
    )
    if not connection.execute(left).rowcount:
        return False
    job_notifications.announce(connection, lease.job.job_id)
    return True


def _queue_again(
    connection: sa.Connection, lease: Lease, not_before: sa.ColumnElement[Any], **counted: object
) -> JobState | None:
    at_once = sa.case(
        (_j.cancel_requested, sa.null()), else_=not_before
    )  # to be cancelled by the next claim or sweep
    again = (
        sa.update(tables.jobs)
        .where(_held(lease))
        .values(
            state=JobState.QUEUED,
            not_before=at_once,
            lease_until=None,
            lease_owner=None,
            sent_at=None,
            **counted,
        )
    )
    return JobState.QUEUED if connection.execute(again).rowcount else None


def _interrupted() -> sa.ColumnElement[int]:
    """Interruptions, with the one that a lapsed lease is."""
    return _j.interruptions + sa.case((_lapsed(), 1), else_=0)


def _is_used_up(limits: Limits, interruptions: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
    return sa.or_(
        _j.attempt - interruptions >= limits.attempts, interruptions >= limits.interruptions
    )


def _after(times: sa.ColumnElement[int]) -> sa.ColumnElement[Any]:
    """Time at which a job runs again that has been cut short `times` times before."""
    doubled = FIRST_PAUSE_S * sa.func.power(2.0, sa.func.least(times, 16))
    pause_s = sa.func.least(LONGEST_PAUSE_S, doubled) * (0.5 + sa.func.random())
    return moments.ahead(pause_s)


def _held(lease: Lease) -> sa.ColumnElement[bool]:
    return sa.and_(
        _j.job_id == lease.job.job_id,
        _j.state == JobState.RUNNING,
        _j.attempt == lease.job.attempt,
        _j.lease_owner == lease.owner,
    )


def _lapsed() -> sa.ColumnElement[bool]:
    return sa.and_(_j.state == JobState.RUNNING, past(_j.lease_until))


def _locked(*conditions: sa.ColumnElement[bool]) -> sa.ScalarSelect[Any]:
    """Ids of jobs that meet the conditions, locked in one order; rows locked by
    other transactions are skipped.
    """
    return (
        sa.select(_j.job_id)
        .where(*conditions)
        .order_by(_j.job_id)
        .with_for_update(skip_locked=True, key_share=True)
        .scalar_subquery()
    )


def _milliseconds(interval: sa.ColumnElement[Any]) -> sa.ColumnElement[float]:
    return sa.cast(sa.extract("epoch", interval) * 1000, sa.Double)
