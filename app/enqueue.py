"""ENQUEUE: from a request to rows, then, after the commit, to messages: permissions
to claim a job.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias
from uuid import UUID

from celery import Celery

from app import routing, workflows
from app.domain import choices, freeform, ids, source_text
from app.domain.job import JobState, idempotency_key
from app.domain.problem import Problem
from app.domain.request import MissingError, PlannedJob, Request, RequestError
from app.domain.rollout import Rollout
from app.domain.trajectory import Run, Turn
from app.sending import mark_unsent, send
from app.store import candidates, devices, jobs, problems, rollouts, trajectories
from app.store.database import Connection, Database

__all__ = [
    "Receipt",
    "Request",
    "RequestError",
    "Within",
    "accept",
    "check",
    "enqueue",
    "enqueue_rollouts",
    "enqueue_trajectory",
    "enqueue_turn",
    "retry",
    "stage",
    "store",
    "stored_with",
]

CHUNK = 1_000
"""Requests in one transaction: the first ones run while the last ones are still being stored."""


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """Answer to a request."""

    job_id: UUID
    known: bool
    """The job was there before: the same was submitted earlier."""
    problem_id: UUID
    run_id: UUID | None


Within: TypeAlias = Callable[[Connection, Sequence[Receipt]], None]
"""Stores the rows that belong to jobs, by their receipts, in the transaction that
stores the jobs.
"""


def enqueue(database: Database, broker: Celery, requests: Sequence[Request]) -> list[UUID]:
    """Ids of the jobs that answer the requests, in their order; raises the errors of `accept`."""
    return [receipt.job_id for receipt in accept(database, broker, requests)]


def accept(
    database: Database,
    broker: Celery,
    requests: Sequence[Request],
    *,
    runs: Iterable[Run] = (),
    within: Within | None = None,
) -> list[Receipt]:
    """Receipts of the jobs that answer the requests, in their order: rows, commit, then messages.

    `runs`: facts of those of the requests' runs that are new.

    `within` stores rows of its caller that refer to the jobs, in the same transaction, which then
    holds all requests: stored after the message had left, such a row would lock the job at the
    moment in which a worker claims it.

    The same request twice is one job, unless it is `fresh`.  A bad request raises RequestError,
    with its position where there are several, before anything is stored.  On
    DatabaseUnavailableError whole chunks of `CHUNK` requests may be stored already: asking again is
    safe.  Where only Redis is down, everything is stored, and a worker's sweep sends it later.
    """
    plans = _planned(requests)
    _check_devices(database, requests)
    answers: list[Receipt] = []
    size = CHUNK if within is None else max(1, len(requests))
    for start in range(0, len(requests), size):
        chunk = slice(start, start + size)
        with database.begin() as connection:
            stored = _store(connection, requests[chunk], plans[chunk], runs=runs, sent=True)
            receipts = [each[0] for each in stored]
            if within is not None:
                within(connection, receipts)
            unsent = _to_send(connection, requests[chunk], stored)
        send(broker, unsent)
        answers += receipts
    return answers


def check(database: Database, requests: Sequence[Request]) -> None:
    """Raise RequestError where `enqueue` would."""
    _planned(requests)
    _check_devices(database, requests)


def enqueue_trajectory(
    database: Database,
    broker: Celery,
    *,
    request: Request,
    turns: Sequence[Turn],
    run: Run | None = None,
    label: str | None = None,
    trajectory_id: UUID | None = None,
) -> UUID:
    """Store a trajectory and a job for every turn that has a candidate, all or nothing; its id.

    `request` gives problem, device and options for each candidate; its own candidate is not read.
    With a `trajectory_id` of the sender's the same again is the one that there is.  Raises
    RequestError, also where no turn has a candidate as yet and none could be evaluated.
    """
    if label is not None and "\x00" in label:
        raise RequestError(f"label: expected text without NUL, got {label!r}")
    if run is not None:
        freeform.check(run.settings, "run.settings")
    request = replace(request, of_turn=True)
    attempts = [turn for turn in turns if turn.candidate is not None]
    name = run.name if run else request.run
    requests = [
        replace(request, candidate=source_text.encode(turn.candidate or ""), run=name)
        for turn in attempts
    ]
    check(database, [replace(request, candidate=b"")])  # also where no turn has a candidate yet
    plans = _planned(requests)
    with database.begin() as connection:
        run_id = trajectories.add_run(connection, run) if run else None
        stored = _store(connection, requests, plans, sent=True)
        job_of = {
            id(turn): receipts[0].job_id for turn, receipts in zip(attempts, stored, strict=True)
        }
        stored_id = trajectories.add(
            connection,
            problem_id=problems.add(connection, [request.problem])[0],
            backend=request.backend,
            turns=[replace(turn, job_id=job_of.get(id(turn))) for turn in turns],
            run_id=run_id,
            label=label,
            trajectory_id=trajectory_id,
        )
        unsent = _to_send(connection, requests, stored)
    send(broker, unsent)
    return stored_id


def enqueue_rollouts(database: Database, broker: Celery, told: Sequence[Rollout]) -> list[UUID]:
    """Jobs of a trainer's rollouts, in their order; each is stored as a trajectory
    of one turn, all or nothing.

    The problem is the stored one of that id or content, where there is one.  Raises RequestError.
    """
    requests = [
        Request(
            problem=rollout.problem or UNTOLD,
            candidate=rollout.candidate,
            backend=rollout.backend,
            device_class=rollout.device_class,
            device=rollout.device,
            options=rollout.options,
        )
        for rollout in told
    ]
    requests, within = stored_with(database, told, requests)
    runs = [rollout.run for rollout in told]
    receipts = accept(database, broker, requests, runs=runs, within=within)
    return [receipt.job_id for receipt in receipts]


UNTOLD = Problem(name="untold", reference=b"")
"""Stands for a problem that is named by its id alone, until that is looked up."""


def stored_with(
    database: Database, told: Sequence[Rollout], requests: Sequence[Request]
) -> tuple[list[Request], Within]:
    """The requests with the problem and run of their rollouts, and the function that
    stores the rollouts beside the jobs.
    """
    with database.read() as connection:
        found = rollouts.problems_of(connection, told)
    requests = [
        replace(request, problem=problem, run=rollout.run.name, of_turn=True)
        for request, rollout, problem in zip(requests, told, found, strict=True)
    ]

    def within(connection: Connection, receipts: Sequence[Receipt]) -> None:
        rollouts.add(
            connection,
            told,
            problem_ids=[receipt.problem_id for receipt in receipts],
            run_ids=[receipt.run_id for receipt in receipts],
            job_ids=[receipt.job_id for receipt in receipts],
        )

    return requests, within


def enqueue_turn(
    database: Database, broker: Celery, *, trajectory_id: UUID, request: Request, turn: Turn
) -> Turn:
    """Append a turn to a stored trajectory, with a job if it has a candidate, all or
    nothing; the turn as stored.

    The same turn at the same `turn_index` again is the one that there is.  Raises
    trajectories.TurnConflictError.
    """
    requests = []
    if turn.candidate is not None:
        candidate = source_text.encode(turn.candidate)
        requests = [replace(request, candidate=candidate, of_turn=True)]
    plans = _planned(requests)
    _check_devices(database, requests)
    with database.begin() as connection:
        receipts = _store(connection, requests, plans, sent=True)
        job_id = receipts[0][0].job_id if receipts else None
        stored = trajectories.append(connection, trajectory_id, replace(turn, job_id=job_id))
        unsent = _to_send(connection, requests, receipts)
    send(broker, unsent)
    return stored


def retry(database: Database, broker: Celery, job_id: UUID) -> JobState | None:
    """Queue a failed or cancelled job again and send its message; the state after
    that, None for no such job.
    """
    with database.begin() as connection:
        state = jobs.retry(connection, job_id)
        unsent = mark_unsent(connection, [job_id])
    send(broker, unsent)
    return state


def store(connection: Connection, requests: Sequence[Request]) -> list[UUID]:
    """Rows without messages, in the caller's transaction: ids of jobs that answer turns' requests.

    A worker's sweep sends them later.  A bad request raises RequestError before anything is stored.
    """
    requests = [replace(request, of_turn=True) for request in requests]
    return [receipts[0].job_id for receipts in _store(connection, requests, _planned(requests))]


def stage(
    connection: Connection, request: Request, *, problem_id: UUID, run_id: UUID
) -> tuple[Receipt, list[jobs.Queued]]:
    """The job of a candidate for a stored problem, in the caller's transaction, and the messages
    for `send` after its commit.  Raises RequestError.
    """
    (plan,) = _planned([request])
    (job,) = plan
    (candidate_id,) = candidates.add(
        connection, [candidates.Candidate(backend=job.backend, source=job.candidate)]
    )
    new = _new_job(replace(request, of_turn=True), problem_id, candidate_id, job, run_id)
    (job_id,) = jobs.add(connection, [new], sent=True)
    receipt = Receipt(
        job_id=job_id, known=job_id != new.job_id, problem_id=problem_id, run_id=run_id
    )
    return receipt, _to_send(connection, [request], [[receipt]])


def _planned(requests: Sequence[Request]) -> list[tuple[PlannedJob, ...]]:
    plans = []
    for position, request in enumerate(requests):
        try:
            routing.queue_for(request.device_class, request.device)
            plans.append(workflows.plan(request))
        except ValueError as error:
            where = f"request {position}: " if len(requests) > 1 else ""
            raise RequestError(f"{where}{error}") from error
    return plans


def _check_devices(database: Database, requests: Sequence[Request]) -> None:
    """A job for a device that was never there, or is of another class, would wait for ever."""
    wanted = {
        (request.device_class, request.device) for request in requests if request.device is not None
    }
    if not wanted:
        return
    with database.begin() as connection:
        listed = devices.listed(connection)
    known = {
        (device.device_class, name) for device in listed for name in (device.node, device.device)
    }
    for device_class, name in wanted - known:
        names = sorted(each for of_class, each in known if of_class == device_class)
        raise MissingError(
            f"unknown device {name!r} of class {device_class!r}; {choices.expected(names)}"
        )


def _store(
    connection: Connection,
    requests: Sequence[Request],
    plans: Sequence[tuple[PlannedJob, ...]],
    *,
    runs: Iterable[Run] = (),
    sent: bool = False,
) -> list[list[Receipt]]:
    """Receipts of the jobs of each request; new jobs are marked where their messages
    are `sent` after the commit.
    """
    problem_ids = problems.add(connection, [request.problem for request in requests])
    planned = [
        (request, problem_id, job)
        for request, problem_id, plan in zip(requests, problem_ids, plans, strict=True)
        for job in plan
    ]
    facts = {run.name: run for run in runs}
    names = {request.run for request in requests if request.run is not None}
    run_ids = trajectories.run_ids(
        connection, [facts.get(name) or Run(name=name) for name in names]
    )
    sources = [
        candidates.Candidate(backend=job.backend, source=job.candidate) for _, _, job in planned
    ]
    candidate_ids = candidates.add(connection, sources)
    new = [
        _new_job(
            request,
            problem_id,
            candidate_id,
            job,
            None if request.run is None else run_ids[request.run],
        )
        for (request, problem_id, job), candidate_id in zip(planned, candidate_ids, strict=True)
    ]
    stored = zip(new, jobs.add(connection, new, sent=sent), strict=True)
    receipts = (
        Receipt(
            job_id=job_id, known=job_id != job.job_id, problem_id=job.problem_id, run_id=job.run_id
        )
        for job, job_id in stored
    )
    return [[next(receipts) for _ in plan] for plan in plans]


def _new_job(
    request: Request, problem_id: UUID, candidate_id: UUID, job: PlannedJob, run_id: UUID | None
) -> jobs.NewJob:
    key = idempotency_key(
        problem_sha256=request.problem.reference_sha256,
        candidate=job.candidate,
        backend=job.backend,
        entry_point=request.problem.entry_point,
        device_class=request.device_class,
        device=request.device,
        options=job.options,
        nonce=request.idempotency_key or (secrets.token_hex(16) if request.fresh else ""),
    )
    return jobs.NewJob(
        job_id=ids.new_id(),
        problem_id=problem_id,
        candidate_id=candidate_id,
        idempotency_key=key,
        priority=str(request.priority),
        device_class=request.device_class,
        device=request.device,
        options=job.options,
        run_id=run_id,
        own_key=bool(request.idempotency_key),
        of_turn=request.of_turn,
    )


def _to_send(
    connection: Connection, requests: Sequence[Request], stored: Sequence[Sequence[Receipt]]
) -> list[jobs.Queued]:
    """Jobs with their queues for which a message has to leave after the commit.

    They are marked before it, in the transaction that stores them: a worker that is quicker than a
    mark afterwards would find the row locked, take nothing, and leave the job to the sweep.
    """
    each = [
        (request, receipt)
        for request, receipts in zip(requests, stored, strict=True)
        for receipt in receipts
    ]
    new = [
        jobs.Queued(job_id=receipt.job_id, device_class=request.device_class, device=request.device)
        for request, receipt in each
        if not receipt.known
    ]
    return new + mark_unsent(connection, [receipt.job_id for _, receipt in each if receipt.known])
