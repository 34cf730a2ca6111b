"""Failures of KernelGYM's own server, by their numbers in its list, which this one
does not have.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from subprocess import Popen

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient

from app.client import Client
from app.domain.job import JobState
from app.settings import Settings
from app.store.queue import jobs, kernelgym
from tests.conftest import administrate, empty_broker
from tests.integration import fakes
from tests.integration.kernelgym import Start, kernel, payload, post
from tests.integration.web_app import opened
from tests.processes import pool_processes
from tests.waiting import until


def last_heartbeat(site: FlaskClient) -> str:
    """Last heartbeat of the only worker."""
    until(lambda: len(site.get("/workers/status").json) == 1)  # a busy host's may be late
    (worker,) = site.get("/workers/status").json.values()
    return str(worker["last_heartbeat"])


@contextmanager
def unreachable(settings: Settings) -> Iterator[None]:
    """The database of the settings refuses connections and ends those that are open."""
    url = sa.make_url(settings.database_url or "")
    administrate(url, f"ALTER DATABASE {url.database} ALLOW_CONNECTIONS false")
    administrate(
        url,
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{url.database}'",
    )
    try:
        yield
    finally:
        administrate(url, f"ALTER DATABASE {url.database} ALLOW_CONNECTIONS true")


def test_r1_a_task_outlives_its_worker(
    site: FlaskClient, settings: Settings, start_worker: Start, tmp_path: Path
) -> None:
    """R1: a dead worker's task is lost, its request hangs, its name is poisoned.
    R5: so after a restart.
    """
    log = tmp_path / "log"
    worker = start_worker(module=fakes.WORKER)
    post(site, "a", f"log {log} ran", "slow 2", wait=0)
    until(log.exists)  # "processing" is said before the candidate's first line runs
    worker.kill()
    worker.wait()
    start_worker(module=fakes.WORKER)
    assert post(site, "a", wait=60).json["status"] == "completed"
    assert log.read_text().split() == ["ran", "ran"]


def test_r2_a_client_that_leaves_costs_nothing_more(site: FlaskClient, client: Client) -> None:
    """R2: handlers outlived their clients and submitted more work.  Here a candidate is one job,
    queued before anybody waits: nothing follows from waiting.
    """
    post(site, "a", wait=0.1)
    post(site, "a", wait=0.1)
    with client.database.begin() as connection:
        assert jobs.counts(connection)[JobState.QUEUED] == 1


def test_r3_a_process_that_dies_idle_is_replaced_and_r10_heartbeats_go_on_meanwhile(
    site: FlaskClient, start_worker: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """R3: an evaluating process that died while it waited wedged its worker for ever.  R10: the
    heartbeats of the worker stood still while it was replaced.  (Of the referee:
    test_isolation's dead referee.)
    """
    monkeypatch.setenv("FAKE_GATE", str(gate := tmp_path / "gate"))
    worker = start_worker(module=fakes.WORKER)
    until(lambda: bool(site.get("/workers/status").json))
    (idle,) = pool_processes(worker.pid)
    gate.touch()
    os.kill(idle, signal.SIGKILL)
    until(lambda: bool(gate.read_text()))  # its successor is being made, and does not get on
    before = last_heartbeat(site)
    until(lambda: last_heartbeat(site) > before)
    assert idle not in pool_processes(worker.pid)
    gate.unlink()
    assert post(site, "a").json["status"] == "completed"


def test_r4_a_heartbeat_that_fails_is_followed_by_the_next(
    site: FlaskClient, start_worker: Start, settings: Settings, tmp_path: Path
) -> None:
    """R4: one heartbeat that did not get through was the last, and two minutes later every worker
    was killed.  Here the next one follows, and the job in hand goes on.
    """
    worker = start_worker(replace(settings, lease_s=4.0, sweep_s=0.2), module=fakes.WORKER)
    log, said = tmp_path / "log", settings.state_dir / "log" / "worker-cpu-0.log"
    post(site, "a", f"log {log} ran", "slow 1.2", wait=0)
    until(lambda: site.get("/status/a").json["status"] == "processing")
    with unreachable(settings):
        until(lambda: b"not currently accepting connections" in said.read_bytes())
    before = last_heartbeat(site)
    until(lambda: last_heartbeat(site) > before)
    assert post(site, "a").json["status"] == "completed"
    assert worker.poll() is None
    assert log.read_text().split() == ["ran"]  # the job was not taken away either


def test_r5_tasks_outlive_a_broker_that_forgets(
    site: FlaskClient, settings: Settings, start_worker: Start
) -> None:
    """R5: queue, tasks and results were gone with Redis."""
    post(site, "a", wait=0)
    empty_broker(settings)
    start_worker(module=fakes.WORKER)
    assert post(site, "a", wait=60).json["status"] == "completed"


def test_r6_tasks_outlive_the_web_and_r8_every_web_process_says_the_same(
    settings: Settings, fake_worker: Popen[bytes]
) -> None:
    """R6: a restart of the API drops requests in flight.  R8: each of its processes
    has its own registry.
    """
    with opened(settings) as first:
        post(first.test_client(), "a", "slow 0.5", wait=0)
        until(lambda: bool(first.test_client().get("/workers/status").json))
        seen = first.test_client().get("/workers/status").json.keys()
    with opened(settings) as second:
        assert post(second.test_client(), "a", wait=30).json["status"] == "completed"
        assert seen == second.test_client().get("/workers/status").json.keys()


def test_r7_what_a_name_costs_is_a_row_without_source(site: FlaskClient, client: Client) -> None:
    """R7: sources and profiles piled up in memory under every name.  Here a source
    is stored once.
    """
    for number in range(5):
        post(site, f"n{number}", wait=0)
    with client.database.begin() as connection:
        found = kernelgym.get(connection, "", [f"n{number}" for number in range(5)])
    assert len({task.job_id for task in found.values()}) == 1
    assert all(len(json.dumps(task.asked)) < 400 for task in found.values())


def test_r9_heartbeats_move(site: FlaskClient, client: Client, fake_worker: Popen[bytes]) -> None:
    """R9: `last_heartbeat` and `status` were those of the registration, for ever."""
    until(lambda: bool(site.get("/workers/status").json))
    first = last_heartbeat(site)
    until(lambda: last_heartbeat(site) > first)
    fake_worker.terminate()
    fake_worker.wait()
    (worker,) = site.get("/workers/status").json.values()
    assert worker["status"] == "offline"


def test_r11_an_infrastructure_fault_is_no_result(
    site: FlaskClient, fake_worker: Popen[bytes]
) -> None:
    """R11: users could not tell a broken node from a broken kernel.  503 makes the published client
    ask again; what failed for good says so, and posting it once more evaluates it once more.
    """
    answer = post(site, "a", "fault")
    assert (answer.status_code, answer.headers["X-Error-Code"]) == (503, "SYSTEM_ERROR")
    assert answer.headers["Retry-After"]
    assert "on fire" in answer.json["message"]
    assert site.get("/status/a").json["error_code"] == "SYSTEM_ERROR"
    result = site.get("/results/a").json
    assert (result["status"], result["speedup"], result["metadata"]["valid"]) == (
        "failed",
        0.0,
        False,
    )
    (problem,) = site.get("/monitoring/problematic-codes?min_errors=3").json["problematic_codes"]
    assert problem["error_count"] == 3
    assert post(site, "a", "fault", wait=0).json["status"] in {"pending", "processing"}


def test_a_batch_with_an_infrastructure_fault_is_no_result(
    site: FlaskClient, fake_worker: Popen[bytes]
) -> None:
    tasks = [payload("b0", kernel()), payload("b1", kernel("fault"))]
    answer = site.post("/evaluate/batch?wait=30", json={"batch_id": "b", "tasks": tasks})
    assert (answer.status_code, answer.json["task_id"]) == (503, "b1")
    assert answer.headers["Retry-After"]
