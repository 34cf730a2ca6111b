"""ENQUEUE: messages of stored jobs, after the commit; lost ones are sent again."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from uuid import UUID

from celery import Celery

from app import broker as messages
from app import routing
from app.domain.job import Limits
from app.store.postgres.database import Connection, Database
from app.store.queue import jobs, leases
from app.telemetry import tracing

_log = logging.getLogger(__name__)


def send_lost(database: Database, broker: Celery, *, grace_s: float, limits: Limits) -> int:
    """The sweep: take jobs from workers that went silent, and send again the messages that the
    broker does not hold any more.

    Returns the number of messages sent; 0 where another process is sweeping.  How many messages are
    missing is known (queued jobs less messages waiting), which ones is not: those with the oldest
    last message are sent again, so that there are never more messages than jobs for long.

    Raises DatabaseUnavailableError and BrokerUnavailableError: nothing is lost, the
    next sweep does it.
    """
    with database.begin() as alone:
        if not jobs.lock_sweep(alone):
            return 0
        with database.begin() as connection:
            leases.settle_lapsed(connection, limits)
        with database.begin() as connection:
            lost: list[jobs.Queued] = []
            for backlog in jobs.backlog(connection, grace_s):
                held = messages.depth(
                    broker, routing.queue_for(backlog.device_class, backlog.device)
                )
                if backlog.jobs > held:
                    lost += jobs.longest_waiting(connection, backlog, grace_s, backlog.jobs - held)
        with database.begin() as connection:
            jobs.mark_sent(connection, [queued.job_id for queued in lost])
        messages.publish(broker, [_message(queued) for queued in lost])
    return len(lost)


def mark_unsent(connection: Connection, job_ids: Sequence[UUID]) -> list[jobs.Queued]:
    """Jobs for which no message has left since they were queued; they are marked."""
    found = jobs.unsent(connection, job_ids) if job_ids else []
    if found:
        jobs.mark_sent(connection, [queued.job_id for queued in found])
    return found


def send(broker: Celery, queued: Sequence[jobs.Queued]) -> None:
    """Messages of staged jobs, after the commit.  Where Redis is away, a worker's
    sweep sends them later.
    """
    try:
        messages.publish(broker, [_message(job) for job in queued])
    except messages.BrokerUnavailableError as error:
        _log.warning(
            "%d jobs are stored and will be sent by a worker's sweep: %s",
            len(queued) - error.sent,
            error,
        )
        queued = queued[: error.sent]
    tracing.begin("job.enqueue", [job.job_id for job in queued])


def _message(queued: jobs.Queued) -> messages.Message:
    return messages.Message(queue=routing.queue_for(queued.device_class, queued.device))
