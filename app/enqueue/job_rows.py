"""ENQUEUE: requests as rows of jobs, in the caller's transaction."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from app import routing, workflows
from app.domain import choices, ids
from app.domain.job import idempotency_key
from app.domain.request import MissingError, PlannedJob, Request, RequestError
from app.domain.trajectory import Run
from app.sending import mark_unsent
from app.store.postgres.database import Connection, Database
from app.store.queue import devices, jobs
from app.store.trajectory import candidates, problems, trajectories


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """Answer to a request."""

    job_id: UUID
    known: bool
    """The job was there before: the same was submitted earlier."""
    problem_id: UUID
    run_id: UUID | None


def planned(requests: Sequence[Request]) -> list[tuple[PlannedJob, ...]]:
    """Jobs of each request.  Raises RequestError for a bad one, with its position where there are
    several.
    """
    plans = []
    for position, request in enumerate(requests):
        try:
            routing.queue_for(request.device_class, request.device)
            plans.append(workflows.plan(request))
        except ValueError as error:
            raise RequestError(f"{_place(requests, position)}{error}") from error
    return plans


def _place(requests: Sequence[Request], position: int) -> str:
    return f"request {position}: " if len(requests) > 1 else ""


def check_devices(database: Database, requests: Sequence[Request]) -> None:
    """Raise MissingError for a device that was never there, or is of another class: its job would
    wait for ever.  With its position where there are several requests.
    """
    if all(request.device is None for request in requests):
        return
    with database.begin() as connection:
        listed = devices.listed(connection)
    known = {
        (device.device_class, name) for device in listed for name in (device.node, device.device)
    }
    for position, request in enumerate(requests):
        name = request.device
        if name is not None and (request.device_class, name) not in known:
            names = sorted(each for of_class, each in known if of_class == request.device_class)
            raise MissingError(
                f"{_place(requests, position)}unknown device {name!r} of class"
                f" {request.device_class!r}; {choices.expected(names)}"
            )


def add_jobs(
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
        new_job(
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


def new_job(
    request: Request, problem_id: UUID, candidate_id: UUID, job: PlannedJob, run_id: UUID | None
) -> jobs.NewJob:
    """The row of a planned job."""
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
        sent_as=request.sent_as,
    )


def to_send(
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
