"""ENQUEUE: jobs of turns, stored with the turn or for one that its caller stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from celery import Celery

from app.domain import freeform
from app.domain.request import Request, check_text
from app.domain.source import source_text
from app.domain.trajectory import Run, Turn
from app.enqueue.job_rows import Receipt, add_jobs, check_devices, new_job, planned, to_send
from app.enqueue.requests import check
from app.sending import send
from app.store.postgres.database import Connection, Database
from app.store.queue import jobs
from app.store.trajectory import candidates, problems, trajectories


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
    if label is not None:
        check_text("label", label)
    if run is not None:
        freeform.check(run.settings, "run.settings")
    request = replace(request, of_turn=True)
    attempts = [turn for turn in turns if turn.candidate is not None]
    name = run.name if run else request.run
    requests = [
        replace(
            request,
            candidate=source_text.encode(turn.candidate or ""),
            run=name,
            sent_as=f"{trajectory_id}/{number}" if trajectory_id else "",
        )
        for number, turn in enumerate(attempts)
    ]
    check(database, [replace(request, candidate=b"")])  # also where no turn has a candidate yet
    plans = planned(requests)
    with database.begin() as connection:
        run_id = trajectories.add_run(connection, run) if run else None
        stored = add_jobs(connection, requests, plans, sent=True)
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
        unsent = to_send(connection, requests, stored)
    send(broker, unsent)
    return stored_id


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
        sent_as = f"{trajectory_id} turn {turn.turn_index}"
        requests = [replace(request, candidate=candidate, of_turn=True, sent_as=sent_as)]
    plans = planned(requests)
    check_devices(database, requests)
    with database.begin() as connection:
        receipts = add_jobs(connection, requests, plans, sent=True)
        job_id = receipts[0][0].job_id if receipts else None
        stored = trajectories.append(connection, trajectory_id, replace(turn, job_id=job_id))
        unsent = to_send(connection, requests, receipts)
    send(broker, unsent)
    return stored


def store(connection: Connection, requests: Sequence[Request]) -> list[UUID]:
    """Rows without messages, in the caller's transaction: ids of jobs that answer turns' requests.

    A worker's sweep sends them later.  A bad request raises RequestError before anything is stored.
    """
    requests = [replace(request, of_turn=True) for request in requests]
    return [receipts[0].job_id for receipts in add_jobs(connection, requests, planned(requests))]


def stage(
    connection: Connection, request: Request, *, problem_id: UUID, run_id: UUID
) -> tuple[Receipt, list[jobs.Queued]]:
    """The job of a candidate for a stored problem, in the caller's transaction, and the messages
    for `send` after its commit.  Raises RequestError.
    """
    (plan,) = planned([request])
    (job,) = plan
    (candidate_id,) = candidates.add(
        connection, [candidates.Candidate(backend=job.backend, source=job.candidate)]
    )
    new = new_job(replace(request, of_turn=True), problem_id, candidate_id, job, run_id)
    (job_id,) = jobs.add(connection, [new], sent=True)
    receipt = Receipt(
        job_id=job_id, known=job_id != new.job_id, problem_id=problem_id, run_id=run_id
    )
    return receipt, to_send(connection, [request], [[receipt]])
