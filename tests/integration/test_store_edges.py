"""Edge cases of queries: keys of bytes, time zones off the hour, many turns of one answer."""

from __future__ import annotations

import sqlalchemy as sa

from app.domain.trajectory import Message
from app.store import tables
from app.store.browse import admin, overview, problems
from app.store.collection import messages
from app.store.evaluation import retention
from app.store.postgres.database import Database
from tests.integration.seed_evaluations import CLEAN, passed
from tests.integration.web_seeder import Seeder


def test_a_table_with_keys_of_bytes_is_read_page_by_page(database: Database) -> None:
    with database.begin() as connection:
        messages.keep(connection, [Message(role="user", content=str(each)) for each in range(5)])
        keys: list[str | None] = []
        before = None
        while (page := admin.raw(connection, "messages", before=before, limit=2)) is not None:
            keys += [row[0] for row in page.rows]
            before = page.next_key
            if before is None:
                break
    assert len(keys) == 5


def test_hours_are_those_of_the_roll_ups_in_every_time_zone(database: Database) -> None:
    with database.begin() as connection:
        seeder = Seeder(connection)
        job_id = seeder.job(seeder.problem("softmax", 1, "x"), b"class ModelNew: pass\n")
        evaluation_id = seeder.evaluation(job_id, passed(seeder.rng, speedup=2.0), CLEAN)
        stored = sa.select(tables.evaluations.c.created_at)
        stored = stored.where(tables.evaluations.c.evaluation_id == evaluation_id)
        age = connection.scalar(sa.select(sa.func.now() - stored.scalar_subquery()))
        connection.execute(sa.text("SET LOCAL timezone = 'Asia/Kolkata'"))  # UTC + 5:30
        hours = overview.read(connection, hours=2 + int(age.total_seconds() // 3600)).hours
    assert sum(hour.evaluations for hour in hours) == 1


def test_the_best_evaluations_are_as_many_however_many_turns_gave_one(database: Database) -> None:
    with database.begin() as connection:
        seeder = Seeder(connection)
        problem_id = seeder.problem("softmax", 1, "x")
        jobs = [seeder.job(problem_id, f"class ModelNew: {each}\n".encode()) for each in (1, 2, 3)]
        wanted = [
            seeder.evaluation(job_id, passed(seeder.rng, speedup=speedup), CLEAN)
            for job_id, speedup in zip(jobs, (9.0, 5.0, 2.0), strict=True)
        ]
        for each in range(20):  # a group of a trainer, all with the same answer
            trajectory_id = seeder.trajectory(problem_id, None, f"sample {each}", [])
            seeder.turn_of(jobs[0], trajectory_id)
        problem = problems.read(connection, problem_id)
        assert problem is not None
        found = problems.results(connection, problem, best=2, latest=3)
    assert [row.evaluation_id for row in found.best] == wanted[:2]
    assert {row.evaluation_id for row in found.latest} == set(wanted)


def test_kernel_codes_go_without_a_timeline(database: Database) -> None:
    with database.begin() as connection:
        seeder = Seeder(connection)
        problem_id = seeder.problem("softmax", 1, "x")
        kept, gone = (
            seeder.evaluation(
                seeder.job(problem_id, source), passed(seeder.rng, speedup=2.0), CLEAN
            )
            for source in (b"new", b"old")
        )
        codes, e = tables.kernel_codes, tables.evaluations.c
        for each in (kept, gone):
            row = {"evaluation_id": each, "raw_bytes": 1, "body": b"x"}
            connection.execute(sa.insert(codes).values(row))
            connection.execute(
                sa.delete(tables.profiles).where(tables.profiles.c.evaluation_id == each)
            )
        month = sa.func.now() - sa.func.make_interval(0, 1)
        for each, moment in ((kept, sa.func.now()), (gone, month)):
            aged = sa.update(tables.evaluations).where(e.evaluation_id == each)
            connection.execute(aged.values(created_at=moment))
    retention.prune_timelines(database, 7 * 86_400)
    with database.read() as connection:
        assert list(connection.scalars(sa.select(codes.c.evaluation_id))) == [kept]
