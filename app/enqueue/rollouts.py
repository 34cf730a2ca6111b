"""ENQUEUE: jobs of a trainer's rollouts, each stored as a trajectory of one turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from celery import Celery

from app.domain.problem import Problem
from app.domain.request import Request
from app.domain.rollout import Rollout
from app.enqueue.job_rows import Receipt
from app.enqueue.requests import Within, accept
from app.store.postgres.database import Connection, Database
from app.store.trajectory import rollouts


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
            priority=rollout.priority,
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
