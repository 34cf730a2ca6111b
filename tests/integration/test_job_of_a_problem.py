"""A reference that is stored as several problems: a turn's evaluation is of the problem of its
trajectory, so that datasets and pass rates count it there.
"""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import sqlalchemy as sa
from celery import Celery
from click.testing import CliRunner

from app import enqueue
from app.cli import errors, main
from app.domain.job import JobState
from app.domain.request import Request
from app.domain.trajectory import Message, Run, Turn
from app.settings import Settings
from app.store import tables
from app.store.evaluation import evaluations
from app.store.figures import rollups
from app.store.postgres.database import Database
from app.store.queue import jobs, leases
from app.store.trajectory import foreign_jobs
from tests.integration import fakes

TURN = Turn(
    messages=(Message(role="user", content="faster"),),
    response="…",
    candidate="same",
    turn_index=0,
)


def asked(source_set: str) -> Request:
    request = fakes.request("same")
    return replace(request, problem=replace(request.problem, source_set=source_set))


def told(database: Database, broker: Celery, source_set: str, run: str) -> tuple[UUID, str]:
    """Job of a trajectory of one turn, and the source set of that job's problem."""
    trajectory_id = enqueue.enqueue_trajectory(
        database,
        broker,
        request=asked(source_set),
        turns=[replace(TURN, job_id=None)],
        run=Run(name=run),
    )
    turns, jobs, problems = tables.turns, tables.jobs, tables.problems
    query = (
        sa.select(jobs.c.job_id, problems.c.source_set)
        .join_from(jobs, turns, turns.c.job_id == jobs.c.job_id)
        .join(problems, problems.c.problem_id == jobs.c.problem_id)
        .where(turns.c.trajectory_id == trajectory_id)
    )
    with database.read() as connection:
        job_id, of = connection.execute(query).one()
    return job_id, of


def test_a_turn_shares_no_job_of_another_problem(database: Database, broker: Celery) -> None:
    [alone] = enqueue.enqueue(database, broker, [asked("adhoc")])
    own, of = told(database, broker, "own", "first")
    assert of == "own"
    assert own != alone
    assert told(database, broker, "own", "second") == (own, "own"), "the same problem's is shared"
    assert told(database, broker, "adhoc", "third") == (alone, "adhoc")


def test_imported_samples_share_none_either(database: Database, broker: Celery) -> None:
    [alone] = enqueue.enqueue(database, broker, [asked("adhoc")])
    with database.begin() as connection:
        first, second = enqueue.store(connection, [asked("own"), asked("adhoc")])
        [again] = enqueue.store(connection, [asked("own")])
    assert second == alone
    assert first == again != alone


def test_a_job_without_a_turn_is_one_under_every_name(database: Database, broker: Celery) -> None:
    first = enqueue.enqueue(database, broker, [asked("adhoc")])
    assert enqueue.enqueue(database, broker, [asked("own")]) == first


def planted(database: Database, broker: Celery) -> tuple[UUID, UUID]:
    """A job of `adhoc` that has ended, and one of `own`, whose turn is given the other job, as
    older versions stored it.
    """
    [alone] = enqueue.enqueue(database, broker, [asked("adhoc")])
    own, _ = told(database, broker, "own", "first")
    with database.begin() as connection:
        lease = leases.claim(connection, alone, "worker", 60.0)
        assert lease is not None
        evaluations.add(
            connection, lease, worker="w", evaluation=fakes.passed(), verdict=fakes.clean()
        )
        connection.execute(sa.update(tables.turns).values(job_id=alone))
        connection.execute(sa.delete(tables.jobs).where(tables.jobs.c.job_id == own))
    return alone, own


def test_turns_that_were_stored_with_anothers_job_are_repaired(
    database: Database, broker: Celery, settings: Settings
) -> None:
    alone, _ = planted(database, broker)
    environ = {"ASSAY_DATABASE_URL": settings.database_url, "ASSAY_BROKER_URL": settings.broker_url}
    listed = CliRunner().invoke(main, ["db", "turns"], env=environ)
    assert listed.exit_code == errors.NO
    assert "own/fake: 1 turns with jobs of adhoc/fake" in listed.output
    repaired = CliRunner().invoke(main, ["db", "turns", "--repair"], env=environ)
    assert repaired.exit_code == errors.OK
    with database.read() as connection:
        job_id = connection.execute(sa.select(tables.turns.c.job_id)).scalar_one()
        assert jobs.states(connection, [job_id]) == {job_id: JobState.QUEUED}
        assert rollups.check(connection) == []
    assert told(database, broker, "own", "second") == (job_id, "own"), "later turns share it"
    assert told(database, broker, "adhoc", "third") == (alone, "adhoc")


def test_a_turn_whose_job_has_not_ended_waits_for_its_repair(
    database: Database, broker: Celery
) -> None:
    alone, _ = planted(database, broker)
    with database.begin() as connection:
        kept = sa.update(tables.jobs).where(tables.jobs.c.job_id == alone)
        connection.execute(kept.values(state=JobState.QUEUED))
    assert foreign_jobs.repair(database) == 0
    with database.read() as connection:
        assert [each.turns for each in foreign_jobs.listed(connection)] == [1]
