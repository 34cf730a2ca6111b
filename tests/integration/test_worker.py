"""A real Celery worker on real servers, with a referee that pretends."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import Popen
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from app import broker as brokers
from app import enqueue
from app.cli import diagnostics, doctor_check
from app.client import Client
from app.domain.job import JobState
from app.settings import Settings
from app.store import tables
from app.store.postgres.database import Database, DatabaseUnavailableError
from app.store.queue import devices, jobs, leases
from tests.bench import chaos
from tests.conftest import fast_folder, redis_of
from tests.integration import fakes
from tests.processes import pool_processes
from tests.waiting import LIMIT_S, until
from workers.worker.job_evaluator import FAULTS_IN_A_ROW

pytestmark = pytest.mark.slow

Start = Callable[..., Popen[bytes]]

INTERRUPTIONS = 3
"""Seconds for interruptions of a worker by its job's death: each takes a lease and a pause."""


@pytest.fixture
def worker(start_worker: Start, settings: Settings) -> Popen[bytes]:
    return start_worker(
        settings=replace(settings, max_interruptions=INTERRUPTIONS), module=fakes.WORKER
    )


def submit(client: Client, *candidates: str, **fields: Any) -> list[UUID]:
    return enqueue.enqueue(
        client.database, client.broker, [fakes.request(each, **fields) for each in candidates]
    )


def rows(database: Database) -> list[sa.Row[Any]]:
    with database.begin() as connection:
        joined = tables.jobs.outerjoin(tables.evaluations)
        return list(
            connection.execute(
                sa.select(tables.jobs, tables.evaluations.c.evaluation_id).select_from(joined)
            )
        )


def state(client: Client, job_id: UUID) -> JobState:
    with client.database.begin() as connection:
        return jobs.states(connection, [job_id])[job_id]


def test_what_happens_in_the_worker_is_in_the_rows(
    client: Client, worker: Popen[bytes], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    wrong, fault, bug, die = submit(client, "wrong", "fault", "bug", f"log {log} died\ndie")
    results = client.wait([wrong, fault, bug, die], timeout_s=LIMIT_S)
    assert [result["state"] for result in results] == ["finished", "failed", "failed", "failed"]
    assert results[0]["status"] == "incorrect"
    assert results[0]["valid"]
    assert [result["error"]["kind"] for result in results[1:]] == [
        "infrastructure",
        "internal",
        leases.EXHAUSTED,
    ]
    assert "on fire" in results[1]["error"]["message"]
    assert "KeyError" in results[2]["error"]["message"]
    assert not any(result["valid"] for result in results[1:])
    assert log.read_text().split() == ["died"] * INTERRUPTIONS
    (device,) = listed(client)
    assert (device.state, device.fingerprint["device_name"]) == ("online", "fake")
    worker.terminate()
    assert worker.wait(LIMIT_S) == 0
    assert listed(client)[0].state == "offline"


def test_a_lone_job_whose_row_is_held_does_not_wait_for_the_sweep(
    client: Client, settings: Settings, start_worker: Start
) -> None:
    """Another transaction holds the row of the only job when its message arrives:
    the permission comes back.
    """
    start_worker(settings=replace(settings, sweep_s=600.0), module=fakes.WORKER)
    client.wait(submit(client, "wrong"), timeout_s=LIMIT_S)  # the worker listens
    with client.database.begin() as connection:
        job_id = enqueue.store(connection, [fakes.request("slow 0")])[0]
    with client.database.begin() as connection:
        held = (
            sa.select(tables.jobs.c.job_id).where(tables.jobs.c.job_id == job_id).with_for_update()
        )
        connection.execute(held)
        brokers.publish(client.broker, [brokers.Message(queue="cpu")])
        log = (settings.state_dir / "log" / "worker-cpu-0.log").read_text
        until(lambda: "the permission is given back" in log())
    client.wait([job_id], timeout_s=LIMIT_S)


def test_every_line_of_a_log_in_json_is_one(
    client: Client, settings: Settings, start_worker: Start
) -> None:
    """Celery's banner and its warning of a worker that runs as root, too."""
    log = settings.state_dir / "log" / "worker-cpu-0.log"
    start_worker(settings=replace(settings, log_format="json"), module=fakes.WORKER)
    client.wait(submit(client, "wrong"), timeout_s=LIMIT_S)
    lines = log.read_bytes().splitlines()
    assert len([json.loads(line) for line in lines]) > 3


def test_a_sick_device_is_quarantined_and_its_job_runs_elsewhere(
    client: Client, settings: Settings, start_worker: Start, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    (sick,) = submit(client, f"sick {tmp_path}/sick\nwhere {log}")
    start_worker(module=fakes.WORKER)
    until(lambda: [device.state for device in listed(client)] == ["quarantined"])
    (device,) = listed(client)
    assert device.reason == "the known kernel took 9 ms instead of 3"
    assert device.changed_by is not None
    assert device.changed_by.startswith(f"worker {device.node}.")
    own = settings.state_dir / "log" / "worker-cpu-0.log"
    until(lambda: "quarantined: no new jobs" in own.read_text())
    assert state(client, sick) is JobState.QUEUED

    start_worker(module=fakes.WORKER, device_index=1)
    (other,) = submit(client, f"where {log}\nslow 0")
    client.wait([sick, other], timeout_s=LIMIT_S)
    assert log.read_text().split() == ["1", "1"]
    with client.database.begin() as connection:
        attempts = connection.execute(sa.select(tables.jobs.c.attempt)).scalars().all()
        devices.resume(connection, f"{device.node}.0", changed_by="test")
    assert set(attempts) == {1}

    meet = submit(client, *(f"meet {tmp_path}/met 2\nslow {number / 1e6}" for number in range(2)))
    client.wait(meet, timeout_s=LIMIT_S)  # both devices are at work again


def test_a_device_on_which_nothing_begins_is_quarantined_and_fails_no_job(
    client: Client, settings: Settings, start_worker: Start, tmp_path: Path
) -> None:
    gate = tmp_path / "mended"
    job_ids = submit(
        client, *(f"unready {gate}\nslow {number / 1e6}" for number in range(FAULTS_IN_A_ROW))
    )
    start_worker(module=fakes.WORKER)
    until(lambda: [device.state for device in listed(client)] == ["quarantined"])
    (device,) = listed(client)
    in_a_row = f"{FAULTS_IN_A_ROW} evaluations in a row failed by infrastructure faults"
    assert device.reason == f"{in_a_row}; the last: the referee did not start"
    (found,) = [
        check for check in diagnostics.run(settings) if check.name == f"device {device.device}"
    ]
    assert (found.outcome, "in a row failed by infrastructure faults" in found.found) == (
        doctor_check.CheckStatus.WARN,
        True,
    )
    assert {(row.state, row.attempt) for row in rows(client.database)} == {("queued", 0)}
    gate.touch()
    with client.database.begin() as connection:
        devices.resume(connection, device.device, changed_by="test")
    assert {result["status"] for result in client.wait(job_ids, timeout_s=LIMIT_S)} == {"incorrect"}
    assert {device.faults for device in listed(client)} == {0}


def test_draining_lets_finish_and_quarantine_does_not(
    client: Client, start_worker: Start, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    start_worker(module=fakes.WORKER)
    (slow,) = submit(client, f"log {log} slow\nslow 3")
    until(
        lambda: state(client, slow) is JobState.RUNNING and bool(listed(client))
    )  # which comes first is open
    (name,) = {device.device for device in listed(client)}
    with client.database.begin() as connection:
        devices.drain(connection, name, reason="new driver", changed_by="test")
    client.wait([slow], timeout_s=LIMIT_S)
    (stopped,) = submit(client, f"log {log} stopped\nslow 3.1")
    time.sleep(1.0)
    assert state(client, stopped) is JobState.QUEUED
    with client.database.begin() as connection:
        devices.resume(connection, name, changed_by="test")
    until(lambda: state(client, stopped) is JobState.RUNNING)
    with client.database.begin() as connection:
        devices.quarantine(connection, name, reason="Xid 79", changed_by="test")
    until(lambda: state(client, stopped) is JobState.QUEUED)
    assert log.read_text().split() == ["slow", "stopped"]


def listed(client: Client) -> list[devices.Device]:
    with client.database.begin() as connection:
        return devices.listed(connection)


def test_a_message_that_comes_twice_runs_once(
    client: Client, start_worker: Start, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    (job_id,) = submit(client, f"log {log} ran\nslow 0.5")
    message = brokers.Message(queue="cpu")
    brokers.publish(client.broker, [message] * 3)
    for index in range(2):
        start_worker(module=fakes.WORKER, device_index=index)
    client.wait([job_id], timeout_s=LIMIT_S)
    until(lambda: brokers.depth(client.broker, "cpu") == 0)
    assert log.read_text().split() == ["ran"]


def test_cancel_stops_what_runs_and_the_next_job_is_unharmed(
    client: Client, worker: Popen[bytes]
) -> None:
    long, next_ = submit(client, "slow 100", "wrong")
    until(lambda: state(client, long) is JobState.RUNNING)
    assert client.cancel(long) is JobState.RUNNING
    assert [result["state"] for result in client.wait([long, next_], timeout_s=LIMIT_S)] == [
        "cancelled",
        "finished",
    ]


def test_the_urgent_runs_first(client: Client, start_worker: Start, tmp_path: Path) -> None:
    log = tmp_path / "log"
    submitted = [
        submit(client, f"log {log} {word}", priority=word)[0] for word in ("low", "normal", "high")
    ]
    start_worker(module=fakes.WORKER)
    client.wait(submitted, timeout_s=LIMIT_S)
    assert log.read_text().split() == ["high", "normal", "low"]


def test_a_long_job_keeps_its_lease(client: Client, worker: Popen[bytes], tmp_path: Path) -> None:
    log = tmp_path / "log"
    (job_id,) = submit(client, f"log {log} ran\nslow {2.5 * client.settings.lease_s}")
    client.wait([job_id], timeout_s=LIMIT_S)
    assert log.read_text().split() == ["ran"]


def test_nothing_is_lost_or_doubled_when_everything_is_killed() -> None:
    """Worker, pool process, Redis, Redis with its data, PostgreSQL and web, each once
    with SIGKILL, beside the jobs.
    """
    folder = fast_folder("assay-test-")
    report = chaos.storm(
        chaos.Plan(jobs=120, seed=20261121, every_s=1.5, kills=6, pretend=True), folder
    )
    shutil.rmtree(folder)
    assert report.ok, report
    assert set(report.kills) == {
        "worker",
        "pool_process",
        "redis",
        "redis_wiped",
        "postgres",
        "web",
    }


def test_a_worker_that_is_asked_to_end_finishes_what_it_is_at(
    client: Client, worker: Popen[bytes], tmp_path: Path
) -> None:
    """No result is made up for jobs in flight, and waiting jobs go on waiting."""
    log = tmp_path / "log"
    running, waiting = submit(client, f"log {log} ran\nslow 1.5", "wrong")
    until(lambda: state(client, running) is JobState.RUNNING)
    worker.terminate()
    assert worker.wait(LIMIT_S) == 0
    (result,) = client.wait([running], timeout_s=LIMIT_S)
    assert (result["state"], result["status"]) == ("finished", "incorrect")
    assert state(client, waiting) is JobState.QUEUED
    assert log.read_text().split() == ["ran"]


def test_redis_keeps_nothing_of_what_is_over(client: Client, worker: Popen[bytes]) -> None:
    client.wait(submit(client, "wrong"), timeout_s=LIMIT_S)
    before = keys(client)
    client.wait(
        submit(client, *(f"slow {number / 1e6}" for number in range(1, 40))), timeout_s=LIMIT_S
    )
    until(lambda: brokers.depth(client.broker, "cpu") == 0 and keys(client) <= before)


def keys(client: Client) -> set[bytes]:
    """Redis' keys; messages in flight are in one of them."""
    with redis_of(client.broker) as redis:
        return set(redis.keys("*"))


def test_a_killed_worker_takes_its_pool_process_with_it(
    client: Client, worker: Popen[bytes]
) -> None:
    (job_id,) = submit(client, "slow 100")
    until(lambda: state(client, job_id) is JobState.RUNNING)
    (pool,) = pool_processes(worker.pid)
    worker.kill()
    worker.wait()
    until(lambda: not Path(f"/proc/{pool}").exists())


def test_jobs_submitted_while_redis_is_away_are_sent_by_the_sweep(
    client: Client, start_worker: Start, caplog: pytest.LogCaptureFixture
) -> None:
    with brokers.make_app("redis://127.0.0.1:1/0") as nobody:
        (job_id,) = enqueue.enqueue(client.database, nobody, [fakes.request()])
    assert "1 jobs are stored and will be sent by a worker's sweep" in caplog.text
    start_worker(module=fakes.WORKER)
    assert client.wait([job_id], timeout_s=LIMIT_S)[0]["state"] == "finished"


def test_a_database_that_is_down_is_a_clear_error() -> None:
    settings = Settings(
        database_url="postgresql+psycopg://assay:secret@127.0.0.1:1/assay", broker_url="redis://x"
    )
    with (
        Client(settings) as client,
        pytest.raises(DatabaseUnavailableError, match=r"127\.0\.0\.1:1/assay: .*refused") as error,
    ):
        client.submit(reference="", candidate="")
    assert "secret" not in str(error.value)
