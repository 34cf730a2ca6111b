"""STORE: jobs in the queue: add, cancel, retry, count.  Every change of state is one statement that
names the state it expects.  The life of a running job: `leases`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from app.domain.job import JobOptions, JobState
from app.store import tables
from app.store.postgres import bulk, moments
from app.store.queue import job_notifications, submissions

SWEEP_LOCK = 0x5357454550
"""Advisory lock of the sweep: 'SWEEP'."""

FUTURE_S = 7_200.0
"""Longer than any pause or lease, in seconds: a time further ahead was written before the
database's clock was set back (a host that starts with a wrong clock), and counts as past.
"""

_j = tables.jobs.c


@dataclass(frozen=True, kw_only=True)
class NewJob:
    """A row to be queued."""

    job_id: UUID
    problem_id: UUID
    candidate_id: UUID
    idempotency_key: str
    priority: str
    device_class: str
    device: str | None
    options: JobOptions
    run_id: UUID | None = None
    """The run with which it shares the devices."""
    own_key: bool = False
    """The submitter named the submission: the same again is that one sent again, and
    shares nothing.
    """
    of_turn: bool = False
    """A turn rests on it: a known job has to be of the same problem."""
    sent_as: str = ""
    """The sender's name of this submission; sent again, it is no further one."""


@dataclass(frozen=True, kw_only=True)
class Queued:
    """Address of a queued job's message."""

    job_id: UUID
    device_class: str
    device: str | None


@dataclass(frozen=True, kw_only=True)
class Withdrawal:
    """State of a job after one of its submissions was withdrawn."""

    state: JobState
    others: int
    """Submissions of the same content for which the job goes on."""


@dataclass(frozen=True, kw_only=True)
class Backlog:
    """Number of jobs that wait for one queue."""

    device_class: str
    device: str | None
    jobs: int


def add(connection: sa.Connection, new: Sequence[NewJob], *, sent: bool = False) -> list[UUID]:
    """Ids of the jobs in the order of `new`; for a known idempotency key, the id of
    the existing job.

    `sent`: the caller sends the messages of new jobs after its commit.  A known job that failed by
    Assay's fault or was cancelled is queued again; one that waits or runs is shared from now on.
    """
    named = submissions.first_seen(connection, [job.sent_as for job in new if job.sent_as])
    of_turns = any(job.of_turn for job in new)
    if of_turns:
        new = _of_own_problems(connection, new)
    stored = _insert(connection, new, sent=sent)
    if of_turns and not all(row.added for row in stored.values()):
        # another transaction may have stored the same content meanwhile, for another problem
        before, new = new, _of_own_problems(connection, new)
        late = [job for job, was in zip(new, before, strict=True) if job != was]
        stored |= _insert(connection, late, sent=sent)
    more = Counter(job.idempotency_key for job in new if not job.sent_as or job.sent_as in named)
    known = sorted({job.idempotency_key for job in new if not stored[job.idempotency_key].added})
    if known:
        own = {job.idempotency_key for job in new if job.own_key}
        _share(connection, {key: more[key] for key in known if key in more and key not in own})
        _revive(connection, _key_in(known))
    return [stored[job.idempotency_key].row_id for job in new]


def _insert(
    connection: sa.Connection, new: Sequence[NewJob], *, sent: bool
) -> dict[str, bulk.StoredRow]:
    """Idempotency key → row of its job, stored if it is new."""
    distinct = {job.idempotency_key: job for job in new}
    number = Counter(job.idempotency_key for job in new)
    rows = [_row(job, number[key]) for key, job in distinct.items()]
    now = ("sent_at",) if sent else ()
    stored = bulk.insert_missing(
        connection, tables.jobs, rows, unique=("idempotency_key",), now=now
    )
    return {key: row for (key,), row in stored.items()}


def _of_own_problems(connection: sa.Connection, new: Sequence[NewJob]) -> list[NewJob]:
    """The jobs; one of a turn has a key of its own where the same content is a job of another
    problem.

    The same reference may be stored as several problems, and an evaluation has the problem of its
    job: with another problem's job a turn would leave the datasets and pass rates of its own.
    """
    keys = sorted({job.idempotency_key for job in new})
    known = sa.select(_j.idempotency_key, _j.problem_id).where(_key_in(keys))
    problem_of = {row.idempotency_key: row.problem_id for row in connection.execute(known)}
    found = []
    for job in new:
        of = problem_of.setdefault(job.idempotency_key, job.problem_id)
        key = job.idempotency_key
        if job.of_turn and of != job.problem_id:
            key = hashlib.sha256(f"{key} {job.problem_id}".encode()).hexdigest()
        found.append(replace(job, idempotency_key=key))
    return found


def unsent(connection: sa.Connection, job_ids: Sequence[UUID]) -> list[Queued]:
    """Queued ones of the jobs for which no message ever left, in the order of `job_ids`."""
    found = {
        queued.job_id: queued
        for queued in _queued(connection, id_in(job_ids), _j.sent_at.is_(None))
    }
    return [found[job_id] for job_id in dict.fromkeys(job_ids) if job_id in found]


def mark_sent(connection: sa.Connection, job_ids: Sequence[UUID]) -> None:
    """Remember that a message has left for each job.  Jobs that are being claimed
    right now are skipped.
    """
    chosen = sa.select(_j.job_id).where(id_in(job_ids), _j.state == JobState.QUEUED)
    locked = (
        chosen.order_by(_j.job_id)
        .with_for_update(skip_locked=True, key_share=True)
        .scalar_subquery()
    )
    connection.execute(
        sa.update(tables.jobs).where(_j.job_id.in_(locked)).values(sent_at=sa.func.now())
    )


def withdraw(
    connection: sa.Connection, job_id: UUID, *, for_all: bool = False
) -> Withdrawal | None:
    """Withdraw one submission, or `for_all` every one: the job goes on while there are others of
    the same content, and is cancelled with the last one.  None if the job does not exist.
    """
    shared = (
        sa.update(tables.jobs)
        .where(_j.job_id == job_id, _open(), _j.submissions > 1, sa.not_(_j.cancel_requested))
        .values(submissions=_j.submissions - 1)
        .returning(_j.state, _j.submissions)
    )
    lock(connection, [job_id])  # a submission that another transaction adds now counts
    row = None if for_all else connection.execute(shared).one_or_none()
    if row is not None:
        return Withdrawal(state=JobState(row.state), others=row.submissions)
    state = cancel(connection, job_id)
    return None if state is None else Withdrawal(state=state, others=0)


def cancel(connection: sa.Connection, job_id: UUID) -> JobState | None:
    """Cancel a queued job at once, or request it of a running one, for all who submitted it;
    returns the new state, None if the job does not exist.
    """
    state = lock(connection, [job_id]).get(job_id)
    changed = sa.update(tables.jobs).where(_j.job_id == job_id).values(cancel_requested=True)
    if state is JobState.QUEUED:
        connection.execute(changed.values(state=JobState.CANCELLED, finished_at=sa.func.now()))
        job_notifications.announce(connection, job_id)
        return JobState.CANCELLED
    if state is JobState.RUNNING:
        connection.execute(changed)
    return state


def retry(connection: sa.Connection, job_id: UUID) -> JobState | None:
    """Queue a failed or cancelled job again as if it were new; returns the new state,
    None if the job does not exist.
    """
    _revive(connection, _j.job_id == job_id)
    return states(connection, [job_id]).get(job_id)


def lock_sweep(connection: sa.Connection) -> bool:
    """Take the lock of sweeps until the transaction ends; False where another
    transaction holds it.
    """
    return bool(
        connection.execute(sa.select(sa.func.pg_try_advisory_xact_lock(SWEEP_LOCK))).scalar_one()
    )


def backlog(connection: sa.Connection, grace_s: float) -> list[Backlog]:
    """Per queue, the jobs for which the broker should hold a message.

    Jobs stored in the last `grace_s` seconds and not sent yet are left to the process sending them,
    and those that run again wait for their moment.
    """
    query = (
        sa.select(_j.device_class, _j.device, sa.func.count().label("jobs"))
        .where(
            _j.state == JobState.QUEUED,
            is_due(),
            sa.or_(_j.sent_at.is_not(None), _is_idle(grace_s)),
        )
        .group_by(_j.device_class, _j.device)
    )
    return [Backlog(**row._mapping) for row in connection.execute(query)]


def longest_waiting(
    connection: sa.Connection, where: Backlog, grace_s: float, limit: int
) -> list[Queued]:
    """Up to `limit` jobs of a queue to which nothing has happened for `grace_s` seconds, or that
    are due to run again: never sent first, then by the age of their last message.
    """
    pinned = _j.device.is_(None) if where.device is None else _j.device == where.device
    conditions = (_j.device_class == where.device_class, pinned, is_due(), _is_idle(grace_s))
    return _queued(connection, *conditions, limit=limit)


def states(connection: sa.Connection, job_ids: Sequence[UUID]) -> dict[UUID, JobState]:
    """State of each of the jobs that exist."""
    found = connection.execute(sa.select(_j.job_id, _j.state).where(id_in(job_ids)))
    return {row.job_id: JobState(row.state) for row in found}


def lock(connection: sa.Connection, job_ids: Sequence[UUID]) -> dict[UUID, JobState]:
    """State of each of the jobs that exist; they change no more before this transaction ends.

    For a decision on the state, and for a turn that is added to a job of another: the roll-ups of a
    turn and of an evaluation that are stored at the same moment would miss each other.
    """
    chosen = sa.select(_j.job_id, _j.state).where(id_in(job_ids)).order_by(_j.job_id)
    found = connection.execute(chosen.with_for_update(key_share=True))
    return {row.job_id: JobState(row.state) for row in found}


def open_jobs(connection: sa.Connection, *, run_id: UUID | None = None) -> dict[UUID, str]:
    """Device class of every unfinished job, or of those of one run, oldest first."""
    query = sa.select(_j.job_id, _j.device_class).where(_open())
    if run_id is not None:
        query = query.where(_j.run_id == run_id)
    return {
        row.job_id: row.device_class
        for row in connection.execute(query.order_by(_j.created_at, _j.job_id))
    }


def counts(connection: sa.Connection) -> dict[JobState, int]:
    """Number of jobs in each state."""
    found = connection.execute(
        sa.select(_j.state, sa.func.count().label("jobs")).group_by(_j.state)
    )
    held = {row.state: row.jobs for row in found}
    return {state: held.get(state, 0) for state in JobState}


def _row(job: NewJob, number: int) -> dict[str, Any]:
    row = {
        **vars(job),
        "options": asdict(job.options),
        "submissions": 1 if job.own_key else number,
    }
    del row["own_key"], row["of_turn"], row["sent_as"]
    return row


def _share(connection: sa.Connection, more: Mapping[str, int]) -> None:
    """Count further submissions of jobs that wait or run, by their keys; a cancellation that
    has not taken place yet is off.
    """
    if not more:
        return
    columns = (sa.column("key", sa.Text), sa.column("number", sa.Integer))
    given = sa.func.unnest(
        sa.literal(list(more), ARRAY(sa.Text)), sa.literal(list(more.values()), ARRAY(sa.Integer))
    ).table_valued(*columns, name="given")
    counted = given.render_derived()
    chosen = sa.select(_j.job_id).where(_key_in(list(more)), _open())
    locked = chosen.order_by(_j.job_id).with_for_update(key_share=True).scalar_subquery()
    shared = sa.update(tables.jobs).where(
        _j.job_id.in_(locked), _j.idempotency_key == counted.c.key
    )
    connection.execute(
        shared.values(submissions=_j.submissions + counted.c.number, cancel_requested=sa.false())
    )


def _open() -> sa.ColumnElement[bool]:
    return _j.state.in_((JobState.QUEUED, JobState.RUNNING))


def _revive(connection: sa.Connection, which: sa.ColumnElement[bool]) -> None:
    over = sa.select(_j.job_id).where(which, _j.state.in_([JobState.FAILED, JobState.CANCELLED]))
    revived = (
        sa.update(tables.jobs)
        .where(
            _j.job_id.in_(
                over.order_by(_j.job_id).with_for_update(key_share=True).scalar_subquery()
            )
        )
        .values(
            state=JobState.QUEUED,
            attempt=0,
            interruptions=0,
            not_before=None,
            sick_devices=0,
            lease_owner=None,
            sent_at=None,
            cancel_requested=False,
            submissions=1,
            error_kind=None,
            error_message=None,
            started_at=None,
            finished_at=None,
        )
    )
    connection.execute(revived)


def _queued(
    connection: sa.Connection, *conditions: sa.ColumnElement[bool], limit: int | None = None
) -> list[Queued]:
    found = connection.execute(
        sa.select(_j.job_id, _j.device_class, _j.device)
        .where(_j.state == JobState.QUEUED, *conditions)
        .order_by(_j.sent_at.nulls_first(), _j.job_id)
        .limit(limit)
    )
    return [Queued(**row._mapping) for row in found]


def is_due() -> sa.ColumnElement[bool]:
    """Condition: a queued job may be claimed, being new, or having waited long
    enough since it was cut short.
    """
    return sa.or_(_j.not_before.is_(None), past(_j.not_before))


def _is_idle(grace_s: float) -> sa.ColumnElement[bool]:
    """Condition: no process is about to send a message: nothing has happened for `grace_s` seconds,
    or the job runs again, which only the sweep tells the broker.
    """
    runs_again = sa.and_(_j.sent_at.is_(None), _j.not_before.is_not(None))
    since = sa.func.coalesce(_j.sent_at, _j.started_at, _j.created_at)
    return sa.or_(runs_again, past(since, -grace_s))


def id_in(job_ids: Sequence[UUID]) -> sa.ColumnElement[bool]:
    """Condition with one array parameter for any number of ids.

    A single one is compared as it is: for an array PostgreSQL expects ten rows, and plans
    anew each time that it sees fewer.
    """
    if len(job_ids) == 1:
        return _j.job_id == job_ids[0]
    return _j.job_id == sa.func.any(sa.bindparam(None, list(job_ids), type_=ARRAY(sa.Uuid)))


def _key_in(keys: Sequence[str]) -> sa.ColumnElement[bool]:
    return _j.idempotency_key == sa.func.any(sa.bindparam(None, list(keys), type_=ARRAY(sa.Text)))


def past(column: sa.ColumnElement[Any], seconds: float = 0.0) -> sa.ColumnElement[bool]:
    """Condition: the time is more than so many seconds ago, or implausibly far in the future."""
    return sa.or_(column <= moments.ahead(seconds), column > moments.ahead(FUTURE_S))
