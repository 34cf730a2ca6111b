"""A job's life in PostgreSQL: claimed once, fenced, finished once."""

from __future__ import annotations

from dataclasses import replace
from typing import cast
from uuid import UUID

import pytest
import sqlalchemy as sa
from celery import Celery

from app import broker as brokers
from app import enqueue, sending
from app.domain.job import JobState, Limits
from app.domain.request import Request, RequestError
from app.domain.verdict import Label
from app.store import tables
from app.store.evaluation import evaluations
from app.store.postgres.database import Database
from app.store.queue import jobs, leases
from tests.conftest import redis_of
from tests.integration import fakes

LEASE_S = 30.0
ATTEMPTS = 3


def claim(
    database: Database, job_id: UUID, owner: str = "me", lease_s: float = LEASE_S
) -> leases.Lease | None:
    with database.begin() as connection:
        return leases.claim(connection, job_id, owner, lease_s)


def must_claim(
    database: Database, job_id: UUID, owner: str = "me", lease_s: float = LEASE_S
) -> leases.Lease:
    lease = claim(database, job_id, owner, lease_s)
    assert lease is not None
    return lease


def finish(database: Database, lease: leases.Lease) -> UUID | None:
    with database.begin() as connection:
        return evaluations.add(
            connection,
            lease,
            worker="w",
            evaluation=fakes.incorrect(),
            verdict=fakes.hack(),
            timeline=b"{}" * 100,
        )


def row(database: Database, job_id: UUID) -> sa.Row[tuple[object, ...]]:
    with database.begin() as connection:
        return connection.execute(
            sa.select(tables.jobs).where(tables.jobs.c.job_id == job_id)
        ).one()


def count(database: Database, table: sa.Table) -> int:
    with database.begin() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())


def test_a_claim_brings_everything_that_a_worker_needs(database: Database, job_id: UUID) -> None:
    job = must_claim(database, job_id).job
    assert (job.reference, job.candidate, job.backend) == (
        fakes.PROBLEM.reference,
        b"wrong",
        "torch",
    )
    assert (job.attempt, job.device_class, job.entry_point) == (1, "cpu", "Model")
    assert row(database, job_id).state == JobState.RUNNING


def test_a_running_job_is_not_claimed_again(database: Database, job_id: UUID) -> None:
    must_claim(database, job_id)
    assert claim(database, job_id, "other") is None
    assert row(database, job_id).lease_owner == "me"


def test_two_claims_at_once_give_one_lease(database: Database, job_id: UUID) -> None:
    with database.begin() as first:
        assert leases.claim(first, job_id, "first", LEASE_S)
        with database.begin() as second:
            second.execute(sa.text("SET LOCAL lock_timeout = '200ms'"))
            with pytest.raises(sa.exc.OperationalError, match="lock timeout"):
                leases.claim(second, job_id, "second", LEASE_S)
            second.rollback()
    assert claim(database, job_id, "second") is None


def test_a_lapsed_lease_is_taken_over_and_its_owner_is_refused(
    database: Database, job_id: UUID
) -> None:
    old = must_claim(database, job_id, "old", lease_s=-1)
    new = must_claim(database, job_id, "new")
    assert new.job.attempt == 2
    with database.begin() as connection:
        assert not leases.extend_lease(connection, old, LEASE_S).held
        assert not leases.fail(connection, old, "kind", "message")
        assert leases.release(connection, old, Limits(), "kind", "message") is None
        assert not leases.stopped(connection, old)
    assert finish(database, old) is None
    assert count(database, tables.evaluations) == count(database, tables.verdicts) == 0
    assert finish(database, new) is not None
    assert row(database, job_id).state == JobState.FINISHED


def test_a_late_result_counts_unless_another_worker_has_claimed(
    database: Database, job_id: UUID
) -> None:
    assert finish(database, must_claim(database, job_id, lease_s=-1)) is not None


def test_finishing_twice_stores_once(database: Database, job_id: UUID) -> None:
    lease = must_claim(database, job_id)
    assert finish(database, lease) is not None
    assert finish(database, lease) is None
    assert claim(database, job_id) is None
    for table in (tables.evaluations, tables.verdicts, tables.findings, tables.profiles):
        assert count(database, table) == 1


def test_a_result_that_cannot_be_stored_leaves_the_job_running(
    database: Database, job_id: UUID
) -> None:
    lease = must_claim(database, job_id)
    unstorable = replace(
        fakes.hack(), label=cast("Label", "believed")
    )  # the table knows clean, suspect and hack
    with pytest.raises(sa.exc.IntegrityError), database.begin() as connection:
        evaluations.add(
            connection, lease, worker="w", evaluation=fakes.incorrect(), verdict=unstorable
        )
    assert count(database, tables.evaluations) == 0
    assert row(database, job_id).state == JobState.RUNNING


def test_extending_moves_the_end_of_the_lease(database: Database, job_id: UUID) -> None:
    lease = must_claim(database, job_id, lease_s=1)
    before = row(database, job_id).lease_until
    with database.begin() as connection:
        pulse = leases.extend_lease(connection, lease, 100)
    assert pulse.held
    assert not pulse.cancel_requested
    assert row(database, job_id).lease_until > before


def test_lapsed_leases_are_interruptions_which_are_bounded(
    database: Database, job_id: UUID
) -> None:
    most = Limits().interruptions
    for attempt in range(1, most + 1):
        assert must_claim(database, job_id, f"owner-{attempt}", lease_s=-1).job.attempt == attempt
    assert claim(database, job_id) is None
    failed = row(database, job_id)
    assert (failed.state, failed.error_kind) == (JobState.FAILED, leases.EXHAUSTED)
    assert (
        failed.error_message
        == f"{most} attempts ended without a result; the last owner was owner-{most}"
    )


def test_what_was_cut_short_waits_longer_each_time_and_is_counted_apart(
    database: Database, job_id: UUID
) -> None:
    limits = Limits(attempts=2, interruptions=4)
    waits = []
    for _ in range(limits.interruptions - 1):
        lease = must_claim(database, job_id)
        with database.begin() as connection:
            assert (
                leases.release(connection, lease, limits, "infra", "gone", cut_short=True)
                is JobState.QUEUED
            )
        again = row(database, job_id)
        waits.append((again.not_before - again.started_at).total_seconds())
        assert (again.sent_at, again.interruptions) == (None, len(waits))
    for times, wait_s in enumerate(waits):
        assert 0.25 * 2**times <= wait_s <= 0.75 * 2**times + LEASE_S / 2
    with (
        database.begin() as connection
    ):  # one by a fault that is no death: attempts are counted from there
        assert (
            leases.release(connection, must_claim(database, job_id), limits, "infra", "fire")
            is JobState.QUEUED
        )
    lease = must_claim(database, job_id)
    with database.begin() as connection:
        assert (
            leases.release(connection, lease, limits, "infra", "gone", cut_short=True)
            is JobState.FAILED
        )


def test_what_could_not_begin_is_not_counted(database: Database, job_id: UUID) -> None:
    for faults in range(1, 20):
        lease = must_claim(database, job_id)
        assert lease.job.attempt == 1
        with database.begin() as connection:
            assert leases.give_back(connection, lease, faults=faults) is JobState.QUEUED
    waiting = row(database, job_id)
    assert (
        25 <= (waiting.not_before - waiting.started_at).total_seconds() <= 95
    )  # half of the longest, or half more


def test_a_job_that_runs_again_is_sent_when_its_moment_has_come(
    database: Database, broker: Celery, job_id: UUID
) -> None:
    with database.begin() as connection:
        leases.release(
            connection, must_claim(database, job_id), Limits(), "infra", "gone", cut_short=True
        )
    with redis_of(broker) as redis:
        redis.flushall()
    later(database, job_id, 60)
    assert sending.send_lost(database, broker, grace_s=1000, limits=Limits()) == 0
    later(database, job_id, -1)
    assert sending.send_lost(database, broker, grace_s=1000, limits=Limits()) == 1


def later(database: Database, job_id: UUID, seconds: float) -> None:
    moment = sa.func.now() + sa.func.make_interval(0, 0, 0, 0, 0, 0, seconds)
    with database.begin() as connection:
        connection.execute(
            sa.update(tables.jobs).where(tables.jobs.c.job_id == job_id).values(not_before=moment)
        )


def test_a_released_job_is_queued_until_its_last_attempt(database: Database, job_id: UUID) -> None:
    for _ in range(ATTEMPTS - 1):
        lease = must_claim(database, job_id)
        with database.begin() as connection:
            assert (
                leases.release(connection, lease, Limits(), "infrastructure", "fire")
                is JobState.QUEUED
            )
    lease = must_claim(database, job_id)
    with database.begin() as connection:
        assert (
            leases.release(connection, lease, Limits(), "infrastructure", "fire") is JobState.FAILED
        )
    failed = row(database, job_id)
    assert (failed.error_kind, failed.error_message) == ("infrastructure", "fire")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"device_class": "h999"}, "unknown GPU class 'h999'; expected one of cpu, a100"),
        ({"device": "NODE"}, "expected '<node>' or '<node>.<index>'"),
        (
            {"device_class": "h200", "device": "nowhere.0"},
            "unknown device 'nowhere.0' of class 'h200'; there is none",
        ),
        (
            {"workflow": "magic"},
            "unknown workflow 'magic'; expected one of kernel_simple, kernelbench",
        ),
        ({"workflow": "kernel_simple"}, r"expects a module that defines get_cases\(\)"),
    ],
)
def test_bad_requests_store_nothing(
    database: Database, broker: Celery, fields: dict[str, object], message: str
) -> None:
    bad: Request = fakes.request("bad", **fields)
    with pytest.raises(RequestError, match=message):
        enqueue.enqueue(database, broker, [fakes.request(), bad])
    assert count(database, tables.jobs) == 0


def test_the_sweep_sends_what_the_broker_lost(database: Database, broker: Celery) -> None:
    enqueue.enqueue(database, broker, [fakes.request(str(number)) for number in range(20)])
    assert sweep(database, broker) == 0
    with redis_of(broker) as redis:
        redis.flushdb()
    assert sweep(database, broker) == 20
    assert brokers.depth(broker, "cpu") == 20
    assert sweep(database, broker) == 0


def test_the_sweep_takes_jobs_from_the_dead(
    database: Database, broker: Celery, job_id: UUID
) -> None:
    with broker.connection_for_read() as connection:
        queue = connection.SimpleQueue("cpu")
        queue.get(timeout=5).ack()
        queue.close()
    must_claim(database, job_id, lease_s=-1)
    sweep(database, broker)
    assert row(database, job_id).interruptions == 1
    later(database, job_id, -1)
    assert sweep(database, broker) == 1
    assert must_claim(database, job_id).job.attempt == 2


def test_one_sweep_at_a_time(database: Database, broker: Celery, job_id: UUID) -> None:
    with database.begin() as connection:
        assert jobs.lock_sweep(connection)
        with redis_of(broker) as redis:
            redis.flushdb()
        assert sweep(database, broker) == 0
    assert sweep(database, broker) == 1


def sweep(database: Database, broker: Celery) -> int:
    return sending.send_lost(database, broker, grace_s=0, limits=Limits())
