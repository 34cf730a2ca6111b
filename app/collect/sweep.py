"""COLLECT: sweep of an endpoint: lost messages, lapsed leases, evaluations that
ended unnoticed, deadlines.
"""

from __future__ import annotations

from uuid import UUID

from celery import Celery

from app import broker as messages
from app import routing
from app.collect import send
from app.store.collection import calls, lifecycle, trees
from app.store.collection.trees import Due
from app.store.postgres.database import Connection, Database
from app.store.queue import jobs

MOST = 1_000
"""Messages sent by one sweep."""


def sweep(database: Database, broker: Celery, endpoint: str, *, waiting: int = 0) -> int:
    """Settle calls of silent workers and send again the tasks that the broker does
    not hold; the number of messages.

    `waiting`: messages that this process has taken and not begun.  Raises DatabaseUnavailableError
    and BrokerUnavailableError: nothing is lost, the next sweep does it.
    """
    with database.begin() as alone:
        if not trees.lock_sweep(alone, endpoint):
            return 0
        while _settle_lapsed(database):
            pass
        with database.begin() as connection:
            _settle(connection)
        _settle_stopped(database)
        held = messages.depth(broker, routing.generate_queue(endpoint)) + waiting
        with database.begin() as connection:
            rollouts = trees.due(connection, endpoint)
            missing = max(0, min(MOST, calls.due(connection, endpoint) + rollouts - held))
            decisions = trees.send_missed(connection, endpoint, min(missing, rollouts))
            calls_ = calls.send_missed(connection, endpoint, missing - len(decisions))
        send.decisions(broker, [Due(row_id=each, endpoint=endpoint) for each in decisions])
        send.calls(broker, [Due(row_id=each, endpoint=endpoint) for each in calls_])
    return len(decisions) + len(calls_)


def _settle_lapsed(database: Database) -> bool:
    """Settle one call of a silent worker; False if there is none."""
    with database.begin() as connection:
        settled = calls.settle_lapsed(connection)
        if settled is not None and settled.given_up:
            trees.mark_due(connection, settled.rollout_id)
    return settled is not None


def _settle_stopped(database: Database) -> None:
    with database.begin() as connection:
        stopped = lifecycle.half_stopped(connection)
    for collection_id, reason in stopped:
        settle_stopped(database, collection_id, reason)


def settle_stopped(database: Database, collection_id: UUID, reason: str) -> None:
    """End the rollouts of a collection whose stop is committed, so that every claim of a call sees
    it, and withdraw their evaluations.
    """
    with database.begin() as connection:
        for job_id in lifecycle.settle_stopped(connection, collection_id, reason):
            jobs.withdraw(connection, job_id)


def _settle(connection: Connection) -> None:
    calls.end_far_pauses(connection)
    trees.wake_ended(connection)
    for collection_id in lifecycle.past_deadline(connection):
        lifecycle.refuse_late(connection, collection_id)
    for collection_id in lifecycle.maybe_over(connection):
        lifecycle.finish_if_over(connection, collection_id)
