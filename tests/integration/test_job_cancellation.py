"""Cancelling jobs, alone and shared by several submissions."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa
import urllib3
from celery import Celery

from app import broker as brokers
from app import enqueue
from app.client import Client, Submission
from app.domain.job import JobState, Limits
from app.domain.trajectory import Turn
from app.settings import Settings
from app.store import tables
from app.store.postgres.database import Database
from app.store.queue import jobs, leases
from tests.integration import fakes
from tests.integration.test_jobs import (
    LEASE_S,
    claim,
    count,
    finish,
    must_claim,
    row,
)
from tests.integration.web_app import served

TRAJECTORY = UUID("01a22237-0000-7000-8000-000000000001")


def test_a_queued_job_is_cancelled_at_once(database: Database, job_id: UUID) -> None:
    with database.begin() as connection:
        assert jobs.cancel(connection, job_id) is JobState.CANCELLED
    assert claim(database, job_id) is None


def test_a_running_job_is_asked_to_stop(database: Database, job_id: UUID) -> None:
    lease = must_claim(database, job_id)
    with database.begin() as connection:
        assert jobs.cancel(connection, job_id) is JobState.RUNNING
    with database.begin() as connection:
        assert leases.extend_lease(connection, lease, LEASE_S).cancel_requested
        assert leases.stopped(connection, lease)
    assert row(database, job_id).state == JobState.CANCELLED


def test_a_job_whose_worker_died_is_cancelled_instead_of_run_again(
    database: Database, job_id: UUID
) -> None:
    must_claim(database, job_id, lease_s=-1)
    with database.begin() as connection:
        jobs.cancel(connection, job_id)
    assert claim(database, job_id) is None
    assert row(database, job_id).state == JobState.CANCELLED


def test_a_job_that_was_given_back_meanwhile_is_cancelled(database: Database, job_id: UUID) -> None:
    lease = must_claim(database, job_id)
    with database.begin() as connection:
        jobs.cancel(connection, job_id)
        assert (
            leases.release(connection, lease, Limits(), "infrastructure", "fire") is JobState.QUEUED
        )
    assert claim(database, job_id) is None
    assert row(database, job_id).state == JobState.CANCELLED


def test_a_result_that_was_ready_before_the_cancellation_counts(
    database: Database, job_id: UUID
) -> None:
    lease = must_claim(database, job_id)
    with database.begin() as connection:
        jobs.cancel(connection, job_id)
    assert finish(database, lease) is not None
    assert row(database, job_id).state == JobState.FINISHED


def test_cancelling_what_is_over_or_unknown_changes_nothing(
    database: Database, job_id: UUID
) -> None:
    finish(database, must_claim(database, job_id))
    with database.begin() as connection:
        assert jobs.cancel(connection, job_id) is JobState.FINISHED
        assert jobs.cancel(connection, uuid4()) is None


def test_a_shared_job_goes_on_until_its_last_submission_is_withdrawn(
    database: Database, broker: Celery, job_id: UUID
) -> None:
    """Submitted once before, and twice in one call, among others."""
    enqueue.enqueue(database, broker, [fakes.request(), fakes.request("other"), fakes.request()])
    with database.begin() as connection:
        for others in (2, 1):
            assert jobs.withdraw(connection, job_id) == jobs.Withdrawal(
                state=JobState.QUEUED, others=others
            )
    lease = must_claim(database, job_id)
    enqueue.enqueue(database, broker, [fakes.request()])
    with database.begin() as connection:
        assert jobs.withdraw(connection, job_id) == jobs.Withdrawal(
            state=JobState.RUNNING, others=1
        )
        assert not leases.extend_lease(connection, lease, LEASE_S).cancel_requested
        assert jobs.withdraw(connection, job_id) == jobs.Withdrawal(
            state=JobState.RUNNING, others=0
        )
        assert leases.extend_lease(connection, lease, LEASE_S).cancel_requested
        assert leases.stopped(connection, lease) is JobState.CANCELLED
        assert jobs.withdraw(connection, job_id) == jobs.Withdrawal(
            state=JobState.CANCELLED, others=0
        )
        assert jobs.withdraw(connection, uuid4()) is None


def test_a_submission_during_a_cancellation_runs(
    database: Database, broker: Celery, job_id: UUID
) -> None:
    """The worker has stopped the evaluation already, and says so after the submission."""
    lease = must_claim(database, job_id)
    with database.begin() as connection:
        assert jobs.withdraw(connection, job_id) == jobs.Withdrawal(
            state=JobState.RUNNING, others=0
        )
    assert enqueue.enqueue(database, broker, [fakes.request()]) == [job_id]
    with database.begin() as connection:
        assert leases.stopped(connection, lease) is JobState.QUEUED
    assert must_claim(database, job_id).job.attempt == 1


def test_a_job_that_is_cancelled_for_all_is_not_kept_by_submissions(
    database: Database, broker: Celery, job_id: UUID
) -> None:
    enqueue.enqueue(database, broker, [fakes.request()])
    must_claim(database, job_id)
    with database.begin() as connection:
        assert jobs.cancel(connection, job_id) is JobState.RUNNING
        assert jobs.withdraw(connection, job_id) == jobs.Withdrawal(
            state=JobState.RUNNING, others=0
        )
    assert row(database, job_id).cancel_requested


def test_a_submission_that_is_sent_again_under_its_own_key_is_one(
    database: Database, broker: Celery
) -> None:
    (own,) = {
        enqueue.enqueue(database, broker, [fakes.request(idempotency_key="k")])[0] for _ in range(2)
    }
    with database.begin() as connection:
        assert jobs.withdraw(connection, own) == jobs.Withdrawal(state=JobState.CANCELLED, others=0)
    enqueue.enqueue(database, broker, [fakes.request(idempotency_key="k")])
    assert row(database, own).submissions == 1  # the job has a life of its own


def test_the_same_submission_is_one_job(database: Database, broker: Celery, job_id: UUID) -> None:
    again = enqueue.enqueue(
        database, broker, [fakes.request(), fakes.request("other"), fakes.request()]
    )
    assert again[0] == again[2] == job_id != again[1]
    assert enqueue.enqueue(database, broker, [fakes.request(fresh=True)])[0] != job_id
    assert count(database, tables.jobs) == 3
    assert brokers.depth(broker, "cpu") == 3


def test_a_cancelled_job_is_queued_again_by_the_same_submission(
    database: Database, broker: Celery, job_id: UUID
) -> None:
    with database.begin() as connection:
        jobs.cancel(connection, job_id)
    assert enqueue.enqueue(database, broker, [fakes.request()]) == [job_id]
    assert must_claim(database, job_id).job.attempt == 1


def losing_the_first_answer(client: Client) -> list[str]:
    """The idempotency keys of the client's requests, the first of which is sent again."""
    sent: list[str] = []
    request = client._transport._http.request  # type: ignore[attr-defined]

    def loses_the_first_answer(*arguments: Any, **options: Any) -> Any:
        answer = request(*arguments, **options)
        sent.append(options.get("headers", {}).get("Idempotency-Key", ""))
        if len(sent) == 1:
            raise urllib3.exceptions.ProtocolError("connection reset")
        return answer

    client._transport._http.request = loses_the_first_answer  # type: ignore[attr-defined]
    return sent


def test_a_withdrawal_that_is_sent_again_withdraws_one_submission(
    database: Database, broker: Celery, settings: Settings, job_id: UUID
) -> None:
    enqueue.enqueue(database, broker, [fakes.request(), fakes.request()])
    with served(settings) as url, Client(url=url) as client:
        sent = losing_the_first_answer(client)
        assert client.cancel(job_id) is JobState.QUEUED
    assert len(sent) == 2
    assert len(set(sent)) == 1
    assert row(database, job_id).submissions == 2


def test_a_submission_that_is_sent_again_after_a_lost_answer_counts_once(
    database: Database, settings: Settings
) -> None:
    same = Submission(reference="class Model: ...", candidate="class ModelNew: ...")
    with served(settings) as url, Client(url=url) as client:
        sent = losing_the_first_answer(client)
        first, second = client.submit_many([same, same])
        assert len(sent) == 2
        assert row(database, first.job_id).submissions == 2
        client.submit_many([same])
        assert row(database, second.job_id).submissions == 3


def test_turns_that_are_sent_again_count_once(database: Database, broker: Celery) -> None:
    turns = [Turn(messages=(), response="same", candidate="same") for _ in range(2)]
    for _ in range(2):
        enqueue.enqueue_trajectory(
            database, broker, request=fakes.request(), turns=turns, trajectory_id=TRAJECTORY
        )
    with database.begin() as connection:
        assert connection.scalar(sa.select(tables.jobs.c.submissions)) == 2
    further = Turn(messages=(), response="same", candidate="same", turn_index=2)
    for _ in range(2):
        enqueue.enqueue_turn(
            database, broker, trajectory_id=TRAJECTORY, request=fakes.request(), turn=further
        )
    with database.begin() as connection:
        assert connection.scalar(sa.select(tables.jobs.c.submissions)) == 3
