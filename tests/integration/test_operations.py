"""Operations on the database: old timelines go, a backup comes back, and data of the
version before stay readable.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
import sqlalchemy as sa
from celery import Celery

from app import enqueue
from app.client import Client
from app.domain import ids
from app.domain.device import DeviceId
from app.domain.evidence import KernelCode
from app.domain.job import Limits
from app.embedded import Services, database_dump
from app.settings import Settings
from app.store import tables
from app.store.evaluation import evaluations, kernel_codes, retention
from app.store.postgres import migrate
from app.store.postgres.database import Database
from app.store.queue import scheduling
from tests.conftest import administrate, drop_database
from tests.integration import fakes

DAY_S = 86_400.0
HERE = DeviceId(device_class="cpu", node="here", index=0)


def evaluated(database: Database, broker: Celery, number: int) -> list[UUID]:
    """Ids of evaluations that were stored."""
    enqueue.enqueue(database, broker, [fakes.request(str(each)) for each in range(number)])
    stored = []
    for _ in range(number):
        with database.begin() as connection:
            terms = scheduling.ClaimSettings(owner="me", lease_s=60, limits=Limits(attempts=1))
            lease = scheduling.claim(connection, HERE, "cpu", terms).lease
            assert lease is not None
            evaluation_id = evaluations.add(
                connection,
                lease,
                worker="w",
                evaluation=fakes.passed(),
                verdict=fakes.hack(),
                timeline=b"{}" * 50,
                codes=(KernelCode(kernel="k", form="ptx", text="ret;"),),
            )
            assert evaluation_id is not None
            stored.append(evaluation_id)
    return stored


def rows(database: Database) -> dict[str, list[tuple[object, ...]]]:
    """Everything that is stored."""
    with database.begin() as connection:
        found = {
            table.name: sorted(
                (tuple(row) for row in connection.execute(sa.select(table))), key=repr
            )
            for table in tables.metadata.sorted_tables
        }
    assert found["evaluations"]
    return found


def test_old_timelines_go_and_nothing_else(
    database: Database, broker: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    old = evaluated(database, broker, 5)
    p = tables.profiles.c
    with database.begin() as connection:
        earlier = p.created_at - sa.func.make_interval(0, 0, 0, 31)
        connection.execute(
            sa.update(tables.profiles)
            .where(p.evaluation_id.in_(old[:3]))
            .values(created_at=earlier)
        )
        assert retention.old_timelines(connection, 30 * DAY_S).number == 3
        assert retention.old_timelines(connection, 32 * DAY_S) == retention.Timelines(
            number=0, stored_bytes=0
        )
    batches: list[int] = []
    assert retention.prune_timelines(database, 30 * DAY_S, batches.append) == 3
    assert batches == [2, 1]
    with database.begin() as connection:
        assert [evaluations.timeline(connection, each) is None for each in old] == [True] * 3 + [
            False
        ] * 2
        assert [kernel_codes.exist(connection, each) for each in old] == [False] * 3 + [True] * 2
        assert all(evaluations.get(connection, each) for each in old)


@pytest.fixture
def empty(services: Services) -> Iterator[str]:
    """URL of a database with nothing in it."""
    template = sa.make_url(services.settings.database_url or "")
    name = f"test_{ids.new_id().hex}"
    administrate(template, f"CREATE DATABASE {name}")
    yield template.set(database=name).render_as_string(hide_password=False)
    drop_database(template, name)


def test_a_backup_comes_back_as_it_was(
    settings: Settings, database: Database, broker: Celery, empty: str, tmp_path: Path
) -> None:
    evaluated(database, broker, 3)
    enqueue.enqueue(database, broker, [fakes.request("waits")])
    before = rows(database)
    file = tmp_path / "assay.dump"
    assert settings.database_url is not None
    assert database_dump.backup(settings.database_url, file) == file.stat().st_size > 1000
    assert file.stat().st_mode & 0o077 == 0
    with pytest.raises(database_dump.TakenError, match="expected a new file"):
        database_dump.backup(settings.database_url, file)

    database_dump.restore(empty, file)
    migrate.check(empty)
    other = Database(empty)
    assert rows(other) == before
    with pytest.raises(database_dump.TakenError, match="stop workers and web before"):
        database_dump.restore(empty, file)
    other.dispose()
    database_dump.restore(empty, file)  # over the data there
    assert rows(other) == before
    other.dispose()

    broken = tmp_path / "broken.dump"
    database.dispose()
    for content in (file.read_bytes()[:2000], file.read_bytes()[:-100], b"CREATE TABLE a;", b""):
        broken.write_bytes(content)
        with pytest.raises(database_dump.DamagedDumpError, match="expected a whole backup"):
            database_dump.restore(settings.database_url, broken)
    assert rows(database) == before


OLD_ROWS = """
INSERT INTO problems VALUES
  ('{1}', 'zoo', 'relu', 1, 'Model', 'reference', 'sha', now());
INSERT INTO runs VALUES ('{2}', 'old run', 'model', '{"temperature": 1}', 3, now());
INSERT INTO trajectories VALUES ('{3}', '{1}', '{2}', 'triton', 'label', now());
INSERT INTO candidates VALUES
  ('{4}', 'triton', 'source', 'sha', now()), ('{5}', 'triton', 'other', 'sha2', now());
INSERT INTO jobs
  (job_id, problem_id, candidate_id, idempotency_key, state, device_class, device, started_at,
   finished_at)
VALUES ('{6}', '{1}', '{4}', 'key', 'finished', 'h200', NULL, now(), now()),
       ('{7}', '{1}', '{5}', 'key 2', 'queued', 'h200', 'old-node.0', NULL, NULL);
INSERT INTO turns VALUES
  ('{8}', '{3}', 0, '[{"role": "user", "content": "write"}]', 'answer', '{6}', now()),
  ('{9}', '{3}', 1, '[]', 'another', '{7}', now());
INSERT INTO devices (device_id, node, device_class, device_index, worker, heartbeat_at)
VALUES ('{10}', 'old-node', 'h200', 0, 'h200-0@old-node', now());
INSERT INTO evaluations (evaluation_id, job_id, attempt, worker, status, valid, compiled, correct,
  baseline,  device_class, device_name, protocol, seed, queue_ms, total_ms, measurement)
VALUES ('{11}', '{6}', 1, 'w', 'incorrect', true, true, false, 'eager', 'h200', 'H200', 'assay-1',
  '00', 1, 2, '{12}');
INSERT INTO verdicts (verdict_id, evaluation_id, label, policy, detectors)
VALUES ('{13}', '{11}', 'hack', 'standard', '{"some": 1}');
INSERT INTO findings VALUES ('{14}', '{13}', 'some', 1, 'hack', 'cheats', '{}');
INSERT INTO users (user_id, name, role) VALUES ('{15}', 'ann', 'admin');
INSERT INTO reviews (review_id, evaluation_id, user_id, label, reason)
VALUES ('{16}', '{11}', '{15}', 'clean', 'fine');
"""
"""Messages in the form that the first version stored."""

MEASUREMENT = (
    '{"status": "incorrect", "seed": "00", "error": {"kind": "wrong_output", "message": "expected'
    ' 1, got 2"}, "environment": {"device_class": "h200", "device_name": "H200", "device_id": "0",'
    ' "node": "old-node", "python": "3.11", "torch": "2.12", "triton": "3.6"}}'
)


def test_data_of_the_first_version_is_read_by_this_one(settings: Settings, empty: str) -> None:
    migrate.upgrade(empty, "20261121")
    identifiers = {number: str(ids.new_id()) for number in range(1, 17)} | {12: MEASUREMENT}
    script = OLD_ROWS
    for number, value in identifiers.items():
        script = script.replace(f"'{{{number}}}'", "'" + value.replace("'", "''") + "'")
    old = Database(empty)
    with old.begin() as connection:
        connection.exec_driver_sql(script)
    migrate.upgrade(empty)
    migrate.check(empty)

    place = DeviceId(device_class="h200", node="old-node", index=0)
    with Client(Settings(database_url=empty, broker_url=settings.broker_url)) as client:
        finished, waits = client.results([UUID(identifiers[6]), UUID(identifiers[7])])
        assert (finished["state"], finished["status"], finished["verdict"]) == (
            "finished",
            "incorrect",
            "hack",
        )
        assert waits["state"] == "queued"
        trajectory = client.get_trajectory(UUID(identifiers[3]))
        assert (trajectory.run, [turn.response for turn in trajectory.turns]) == (
            "old run",
            ["answer", "another"],
        )
        terms = scheduling.ClaimSettings(owner="me", lease_s=60, limits=Limits(attempts=1))
        with client.database.begin() as connection:
            lease = scheduling.claim(connection, place, "gpu.h200", terms).lease
            assert lease is not None
            assert str(lease.job.job_id) == identifiers[7]
            j = tables.jobs.c
            run_id = connection.execute(
                sa.select(j.run_id).where(j.job_id == lease.job.job_id)
            ).scalar_one()
        assert str(run_id) == identifiers[2]
    old.dispose()
