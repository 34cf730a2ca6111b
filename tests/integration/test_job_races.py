"""Submissions of the same content at the same moment: none is lost, none gets another one's job."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import sqlalchemy as sa

from app import enqueue
from app.domain.job import JobState
from app.domain.request import Request
from app.domain.rollout import Rollout
from app.domain.trajectory import Run
from app.store import tables
from app.store.postgres.database import Database
from app.store.queue import jobs, leases
from app.store.trajectory import rollouts
from tests.integration import fakes
from tests.integration.overlap import started, waits_or_ends


def asked(candidate: str, source_set: str = "adhoc") -> Request:
    request = fakes.request(candidate)
    return replace(request, problem=replace(request.problem, source_set=source_set))


def stored(database: Database, *requests: Request) -> list[UUID]:
    with database.begin() as connection:
        return enqueue.store(connection, requests)


def source_set_of(database: Database, job_id: UUID) -> str:
    joined = tables.jobs.join(tables.problems)
    query = sa.select(tables.problems.c.source_set).select_from(joined)
    with database.read() as connection:
        return str(connection.scalar(query.where(tables.jobs.c.job_id == job_id)))


def test_turns_of_two_problems_at_once_share_no_job(database: Database) -> None:
    for known in ("first", "second"):  # both problems and the candidate are stored
        stored(database, replace(asked("new", known), fresh=True))
    with database.begin() as connection:
        [first] = enqueue.store(connection, [asked("new", "first")])
        with started(lambda: stored(database, asked("new", "second"))) as later:
            waits_or_ends(database, later)
            connection.commit()
            [second] = later.result()
    assert source_set_of(database, first) == "first"
    assert source_set_of(database, second) == "second"


def test_a_withdrawal_leaves_a_submission_that_comes_at_once(database: Database) -> None:
    [job_id] = stored(database, asked("same"))

    def withdrawn() -> jobs.Withdrawal | None:
        with database.begin() as connection:
            return jobs.withdraw(connection, job_id)

    with database.begin() as connection:
        assert enqueue.store(connection, [asked("same")]) == [job_id]
        with started(withdrawn) as later:
            waits_or_ends(database, later)
            connection.commit()
            assert later.result() == jobs.Withdrawal(state=JobState.QUEUED, others=1)


def test_batches_that_repeat_the_same_jobs_differently_do_not_deadlock(database: Database) -> None:
    one, other = asked("one"), asked("other")
    job_ids = stored(database, one, other)
    first, last = sorted(zip(job_ids, (one, other), strict=True))
    with database.begin() as connection:
        jobs.lock(connection, [first[0]])
        with started(lambda: stored(database, last[1], first[1], first[1])) as later:
            waits_or_ends(database, later)
            jobs.lock(connection, [last[0]])
            connection.commit()
            later.result()
    with database.read() as connection:
        query = sa.select(tables.jobs.c.job_id, tables.jobs.c.submissions)
        assert dict(connection.execute(query).all()) == {first[0]: 3, last[0]: 2}


def told(connection: sa.Connection, job_id: UUID) -> None:
    """A rollout that its sender may send again."""
    rollout = Rollout(
        problem=fakes.PROBLEM, run=Run(name="run"), answer="…", candidate=b"same", repeatable=True
    )
    run_id = connection.scalar(sa.select(tables.runs.c.run_id))
    problem_id = connection.scalar(sa.select(tables.jobs.c.problem_id))
    rollouts.add(
        connection, [rollout], problem_ids=[problem_id], run_ids=[run_id], job_ids=[job_id]
    )


def test_a_rollout_sent_twice_at_once_is_one(database: Database) -> None:
    [job_id] = stored(database, replace(asked("same"), run="run"))
    with database.begin() as connection:
        lease = leases.claim(connection, job_id, "worker", 60.0)
        assert lease is not None
        assert leases.finish(connection, lease) is not None

    def again() -> None:
        with database.begin() as connection:
            told(connection, job_id)

    with database.begin() as connection:
        told(connection, job_id)
        with started(again) as later:
            waits_or_ends(database, later)
            connection.commit()
            later.result()
    with database.read() as connection:
        number = sa.select(sa.func.count()).select_from(tables.trajectories)
        assert connection.execute(number).scalar_one() == 1
