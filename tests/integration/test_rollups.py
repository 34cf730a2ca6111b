"""Roll-ups equal the stored rows, after changes of any kind and order."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from app.cli import main
from app.domain import ids
from app.domain.evaluation import Status
from app.settings import Settings
from app.store import tables
from app.store.evaluation import evaluations
from app.store.figures import rollups
from app.store.postgres.database import Database
from tests.integration.seed_evaluations import CLEAN, HACK, SUSPECT, failed, passed
from tests.integration.web_seed import seed
from tests.integration.web_seeder import Seeder


def right(connection: sa.Connection) -> bool:
    assert rollups.check(connection) == []
    return True


def total(connection: sa.Connection, column: sa.Column[int]) -> int:
    return int(connection.execute(sa.select(sa.func.coalesce(sa.func.sum(column), 0))).scalar_one())


def test_they_follow_every_change(database: Database) -> None:
    with database.begin() as connection:
        seed(connection)
        assert right(connection)
        judged = list(connection.scalars(sa.select(tables.evaluations.c.evaluation_id)))
    rng = random.Random(1)
    for evaluation_id in rng.sample(judged, 20):
        with database.begin() as connection:
            evaluations.add_verdict(connection, evaluation_id, rng.choice((CLEAN, SUSPECT, HACK)))
    with database.begin() as connection:
        assert right(connection)
        for evaluation_id in rng.sample(judged, 10):
            reviewed = sa.update(tables.evaluations).where(
                tables.evaluations.c.evaluation_id == evaluation_id
            )
            connection.execute(reviewed.values(human_verdict=rng.choice(("clean", "hack", None))))
        assert right(connection)
        assert rollups.fold(connection, least=1) > 0
        assert right(connection)
        assert rollups.fold(connection, least=1) == 0


def test_they_follow_what_is_deleted(database: Database) -> None:
    with database.begin() as connection:
        seed(connection)
        for table in (tables.findings, tables.verdicts, tables.profiles, tables.turns):
            connection.execute(sa.delete(table))
            assert right(connection)
        assert total(connection, tables.attempt_counts.c.attempts) == 0
        assert total(connection, tables.hourly_counts.c.evaluations) == 0
        assert total(connection, tables.hourly_findings.c.findings) == 0


def test_a_candidate_that_came_alone_becomes_a_turns(database: Database) -> None:
    """The same submission twice is one job: the second time as a turn, and it is
    that turn's attempt from then on.
    """
    with database.begin() as connection:
        seeder = Seeder(connection)
        problem_id = seeder.problem("softmax", 1, "x")
        job_id = seeder.job(problem_id, b"class ModelNew: pass\n")
        seeder.evaluation(job_id, passed(seeder.rng, speedup=2.0), CLEAN)
        assert listed(connection) == [(None, 2.0)]
        trajectory_id = seeder.trajectory(problem_id, None, "one", [])
        turn_id = ids.new_id()
        row = {
            "turn_id": turn_id,
            "trajectory_id": trajectory_id,
            "turn_index": 0,
            "job_id": job_id,
        }
        connection.execute(sa.insert(tables.turns).values(**row, messages_json="[]", response=b""))
        assert listed(connection) == [(turn_id, 2.0)]
        connection.execute(sa.update(tables.turns).values(job_id=None))
        assert listed(connection) == [(None, 2.0), (turn_id, None)]
        assert right(connection)


def test_two_turns_of_one_evaluated_job_may_come_at_once(database: Database) -> None:
    """A group of rollouts often holds the same candidate twice: neither transaction
    fails on the other's attempt.
    """
    with database.begin() as connection:
        seeder = Seeder(connection)
        problem_id = seeder.problem("softmax", 1, "x")
        job_id = seeder.job(problem_id, b"class ModelNew: pass\n")
        seeder.evaluation(job_id, passed(seeder.rng, speedup=2.0), CLEAN)
        trajectories = [seeder.trajectory(problem_id, None, name, []) for name in ("one", "two")]
    first_has_inserted, second_is_under_way = threading.Event(), threading.Event()

    def second() -> None:
        assert first_has_inserted.wait(30)
        second_is_under_way.set()
        with database.begin() as connection:
            _insert_turn(connection, trajectories[1], job_id)

    with ThreadPoolExecutor(1) as pool:
        with database.begin() as connection:
            _insert_turn(connection, trajectories[0], job_id)
            asked = pool.submit(second)
            first_has_inserted.set()
            assert second_is_under_way.wait(30)
            _await_a_waiting_transaction(database)
        asked.result(30)
    with database.begin() as connection:
        assert [speedup for _, speedup in listed(connection)] == [2.0, 2.0]
        assert right(connection)


def _insert_turn(connection: sa.Connection, trajectory_id: UUID, job_id: UUID) -> None:
    row = {
        "turn_id": ids.new_id(),
        "trajectory_id": trajectory_id,
        "turn_index": 0,
        "job_id": job_id,
    }
    connection.execute(sa.insert(tables.turns).values(**row, messages_json="[]", response=b""))


def _await_a_waiting_transaction(database: Database) -> None:
    """Until one backend waits for a lock of another, so that the two transactions
    really overlap.
    """
    waiting = sa.text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    for _ in range(300):
        with database.begin() as connection:
            if connection.execute(waiting).scalar_one():
                return
        time.sleep(0.05)
    pytest.fail("expected the second transaction to wait for the first")


def listed(connection: sa.Connection) -> list[tuple[UUID | None, float | None]]:
    found = sa.select(tables.attempts.c.turn_id, tables.attempts.c.speedup)
    return [
        tuple(row)
        for row in connection.execute(found.order_by(tables.attempts.c.turn_id.nulls_first()))
    ]


def test_hacks_and_faults_are_not_credited(database: Database) -> None:
    with database.begin() as connection:
        seeder = Seeder(connection)
        problem_id = seeder.problem("softmax", 1, "x")
        for evaluation, verdict in (
            (passed(seeder.rng, speedup=1.3), CLEAN),
            (passed(seeder.rng, speedup=9.0), HACK),
            (failed(seeder.rng, Status.INCORRECT), CLEAN),
            (failed(seeder.rng, Status.INVALID), CLEAN),
        ):
            seeder.evaluation(seeder.job(problem_id, b"x"), evaluation, verdict)
        counted = {
            c.name: total(connection, c)
            for c in tables.attempt_counts.c
            if isinstance(c.type, sa.BigInteger)
        }
    assert counted == {
        "attempts": 4,
        "correct": 1,
        "passed": 2,
        "hacks": 1,
        "suspects": 0,
        "timed": 1,
        "log_speedup_e9": 262364264,
        "faster_than_1": 1,
        "faster_than_1_2": 1,
        "faster_than_1_5": 0,
        "faster_than_2": 0,
    }


def test_the_command_finds_what_is_wrong_and_mends_it(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in settings.to_env().items():
        monkeypatch.setenv(name, value)
    with database.begin() as connection:
        seed(connection)
    run = CliRunner()
    assert run.invoke(main, ["db", "rollup", "--check"]).exit_code == 0
    with database.begin() as connection:
        connection.execute(sa.text("UPDATE hourly_counts SET evaluations = evaluations + 1"))
    checked = run.invoke(main, ["db", "rollup", "--check"])
    assert checked.exit_code == 1
    assert "hourly_counts" in checked.output
    assert run.invoke(main, ["db", "rollup", "--rebuild"]).exit_code == 0
    assert run.invoke(main, ["db", "rollup", "--check"]).exit_code == 0
