"""ENQUEUE: jobs of requests: rows, commit, then messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias
from uuid import UUID

from celery import Celery

from app.domain.job import JobState
from app.domain.request import Request
from app.domain.trajectory import Run
from app.enqueue.job_rows import Receipt, add_jobs, check_devices, planned, to_send
from app.sending import mark_unsent, send
from app.store.postgres.database import Connection, Database
from app.store.queue import jobs

CHUNK = 1_000
"""Requests in one transaction: the first ones run while the last ones are still being stored."""

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
    plans = planned(requests)
    check_devices(database, requests)
    answers: list[Receipt] = []
    size = CHUNK if within is None else max(1, len(requests))
    for start in range(0, len(requests), size):
        chunk = slice(start, start + size)
        with database.begin() as connection:
            stored = add_jobs(connection, requests[chunk], plans[chunk], runs=runs, sent=True)
            receipts = [each[0] for each in stored]
            if within is not None:
                within(connection, receipts)
            unsent = to_send(connection, requests[chunk], stored)
        send(broker, unsent)
        answers += receipts
    return answers


def check(database: Database, requests: Sequence[Request]) -> None:
    """Raise RequestError where `enqueue` would."""
    planned(requests)
    check_devices(database, requests)


def retry(database: Database, broker: Celery, job_id: UUID) -> JobState | None:
    """Queue a failed or cancelled job again and send its message; the state after
    that, None for no such job.
    """
    with database.begin() as connection:
        state = jobs.retry(connection, job_id)
        unsent = mark_unsent(connection, [job_id])
    send(broker, unsent)
    return state
