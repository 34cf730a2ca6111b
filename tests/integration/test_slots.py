"""Several evaluations in flight on one device: at once, side by side, and each with a referee that
is there before the first job.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import Popen
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from app import enqueue, routing
from app.client import Client, Result, Submission
from app.domain.device import DeviceId
from app.domain.job import JobState
from app.settings import Settings
from app.store import tables
from app.store.queue import devices, jobs
from tests.integration import fakes
from tests.processes import descendants, pool_processes
from tests.waiting import LIMIT_S, until
from workers.worker import job_evaluator

pytestmark = pytest.mark.slow
NODE = routing.node_name(socket.gethostname())

REFERENCE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x): return torch.relu(x) + 1
def get_inputs(): return [torch.randn(64, 64)]
"""
HONEST = REFERENCE.replace("class Model(", "class ModelNew(")
SLOW = HONEST.replace("return torch", "import time; time.sleep(0.06); return torch")
"""Checking alone takes it seconds, which is when another may be checked as well."""

Start = Callable[..., Popen[bytes]]


@pytest.fixture
def two_slots(settings: Settings) -> Settings:
    return replace(settings, slots=2)


def submit(client: Client, *candidates: str, **fields: Any) -> list[UUID]:
    return enqueue.enqueue(
        client.database, client.broker, [fakes.request(each, **fields) for each in candidates]
    )


def running(client: Client, job_ids: list[UUID]) -> int:
    with client.database.begin() as connection:
        return list(jobs.states(connection, job_ids).values()).count(JobState.RUNNING)


def attempts(client: Client, job_ids: list[UUID]) -> list[int]:
    with client.database.begin() as connection:
        rows = connection.execute(sa.select(tables.jobs.c.job_id, tables.jobs.c.attempt))
        attempt = {row.job_id: row.attempt for row in rows}
    return [attempt[job_id] for job_id in job_ids]


def owners(client: Client, job_ids: list[UUID]) -> dict[UUID, int]:
    """Pid of the pool process that is at each job."""
    with client.database.begin() as connection:
        rows = connection.execute(sa.select(tables.jobs.c.job_id, tables.jobs.c.lease_owner))
        return {
            row.job_id: int(row.lease_owner.split(".")[1]) for row in rows if row.job_id in job_ids
        }


def test_as_many_jobs_as_slots_are_in_flight(
    client: Client, two_slots: Settings, start_worker: Start, tmp_path: Path
) -> None:
    """Two that wait for each other come to their ends; of three, one has to wait."""
    worker = start_worker(two_slots, module=fakes.WORKER)
    met = submit(client, *(f"meet {tmp_path}/met 2\nslow {number / 1e6}" for number in range(2)))
    assert [result["state"] for result in client.wait(met, timeout_s=LIMIT_S)] == ["finished"] * 2
    assert len(pool_processes(worker.pid)) == 2

    stuck = submit(
        client, *(f"meet {tmp_path}/stuck 3\nslow {number / 1e6}" for number in range(3))
    )
    until(lambda: running(client, stuck) == 2)
    time.sleep(1.0)
    assert running(client, stuck) == 2
    for job_id in stuck:
        client.cancel(job_id)
    assert [result["state"] for result in client.wait(stuck, timeout_s=LIMIT_S)] == [
        "cancelled"
    ] * 3


def test_a_pool_process_that_is_killed_leaves_the_other_alone(
    client: Client, two_slots: Settings, start_worker: Start, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    worker = start_worker(two_slots, module=fakes.WORKER)
    pair = submit(client, f"log {log} first\nslow 4", f"log {log} second\nslow 4.1")
    until(lambda: running(client, pair) == 2)
    victim, survivor = pair
    before = set(pool_processes(worker.pid))
    os.kill(owners(client, pair)[victim], signal.SIGKILL)
    (after,) = submit(client, "wrong")
    assert [result["state"] for result in client.wait([*pair, after], timeout_s=LIMIT_S)] == [
        "finished"
    ] * 3
    assert attempts(client, [victim, survivor]) == [2, 1]
    assert sorted(log.read_text().split()) == ["first", "first", "second"]
    assert len(set(pool_processes(worker.pid)) - before) == 1


@pytest.mark.parametrize("at_work", [True, False])
def test_a_pool_process_that_is_frozen_is_killed_and_its_job_runs_again(
    client: Client,
    settings: Settings,
    start_worker: Start,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    at_work: bool,
) -> None:
    monkeypatch.setenv("FAKE_SILENT_S", "2")
    log = tmp_path / "log"
    worker = start_worker(settings, module=fakes.WORKER)
    client.wait(submit(client, "wrong"), timeout_s=LIMIT_S)
    if at_work:
        (job_id,) = submit(client, f"log {log} frozen\nslow 2")
        until(lambda: running(client, [job_id]) == 1)
    (frozen,) = pool_processes(worker.pid)
    os.kill(frozen, signal.SIGSTOP)
    if not at_work:
        (job_id,) = submit(client, f"log {log} frozen")
    assert client.wait([job_id], timeout_s=LIMIT_S)[0]["state"] == "finished"
    assert worker.poll() is None
    assert frozen not in pool_processes(worker.pid)
    assert attempts(client, [job_id]) == [2 if at_work else 1]


def test_a_main_process_that_is_frozen_is_killed_for_its_supervisor(
    client: Client, settings: Settings, start_worker: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_SILENT_S", "2")
    worker = start_worker(settings, module=fakes.WORKER)
    client.wait(submit(client, "wrong"), timeout_s=LIMIT_S)
    below = descendants(worker.pid)
    worker.send_signal(signal.SIGSTOP)
    assert worker.wait(LIMIT_S) == -signal.SIGKILL
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below))
    log = settings.state_dir / "log" / "worker-cpu-0.log"
    assert f"process {worker.pid}: no sign of life for 2 s" in log.read_text()


def test_a_pinned_job_runs_on_its_device_and_others_on_any(
    client: Client, settings: Settings, start_worker: Start, tmp_path: Path
) -> None:
    for index in range(2):
        start_worker(settings, module=fakes.WORKER, device_class="h200", device_index=index)
    until(lambda: len(listed(client)) == 2)
    for index in (1, 0):
        log = tmp_path / f"pinned-{index}"
        sent = [f"where {log}\nslow {number / 1e6}" for number in range(4)]
        pinned = submit(client, *sent, device_class="h200", device=f"{NODE}.{index}")
        client.wait(pinned, timeout_s=LIMIT_S)
        assert log.read_text().split() == [str(index)] * 4

    both = submit(
        client,
        *(f"meet {tmp_path}/both 2\nslow {number / 1e6}" for number in range(2)),
        device_class="h200",
    )
    assert [result["state"] for result in client.wait(both, timeout_s=LIMIT_S)] == ["finished"] * 2


def listed(client: Client) -> list[devices.Device]:
    with client.database.begin() as connection:
        return devices.listed(connection)


def evaluate(
    client: Client, *candidates: str, gpu: str = "cpu", wait: bool = True
) -> tuple[list[UUID], list[Result]]:
    options = {"timing_budget_s": 0.2, "call_timeout_s": 20.0, "deadline_s": 60.0}
    handles = client.submit_many(
        [
            Submission(
                reference=REFERENCE, candidate=each, backend="torch", gpu=gpu, options=options
            )
            for each in candidates
        ]
    )
    job_ids = [handle.job_id for handle in handles]
    return job_ids, client.wait(job_ids, timeout_s=LIMIT_S) if wait else []


def test_two_real_evaluations_at_once_and_one_of_them_killed(
    client: Client, two_slots: Settings, start_worker: Start
) -> None:
    """The referees are there, and have described the device, before there is a job."""
    worker = start_worker(
        replace(two_slots, lease_s=12.0)
    )  # the evaluations here keep the cores from a heartbeat
    until(lambda: any(device.fingerprint for device in listed(client)))
    (device,) = listed(client)
    assert (device.fingerprint["device_class"], device.fingerprint["slots"]) == ("cpu", 2)

    pair, _ = evaluate(client, SLOW, f"{SLOW}# another\n", wait=False)
    until(lambda: running(client, pair) == 2)
    assert len(set(owners(client, pair).values())) == 2
    for result in client.wait(pair, timeout_s=LIMIT_S):
        assert (result["status"], result["verdict"], result["correct"]) == (
            "passed",
            "clean",
            True,
        ), result["error"]
        assert isinstance(result["speedup"], float)
        assert result["speedup"] < 0.5

    pair, _ = evaluate(client, f"{SLOW}# third\n", f"{SLOW}# fourth\n", wait=False)
    until(lambda: running(client, pair) == 2)
    victim = owners(client, pair)[pair[0]]
    below = descendants(victim)
    assert below  # its referee, and the processes that it started
    os.kill(victim, signal.SIGKILL)
    assert [result["status"] for result in client.wait(pair, timeout_s=LIMIT_S)] == ["passed"] * 2
    assert attempts(client, pair) == [2, 1]
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below))
    worker.terminate()
    assert worker.wait(LIMIT_S) == 0


def test_a_device_that_is_not_there_fails_no_job_and_is_quarantined(
    client: Client, settings: Settings, start_worker: Start
) -> None:
    log = settings.state_dir / "log" / "worker-h200-9.log"
    worker = start_worker(
        replace(settings, slots=1), device_class="h200", device_index=9
    )  # one slot, one line
    until(lambda: log.exists() and "no evaluations on h200 9 yet" in log.read_text())
    (line,) = [line for line in log.read_text().splitlines() if "no evaluations on" in line]
    assert (
        "the referee did not start: ValueError: device class 'h200': expected a GPU, and torch"
        in line
    )
    assert line.endswith("sees none; the next job tries again")
    until(lambda: [device.faults for device in listed(client)] == [1])

    (job_id,), _ = evaluate(client, HONEST, gpu="h200", wait=False)
    with client.database.begin() as connection:
        place = DeviceId(device_class="h200", node=NODE, index=9)
        for number in range(1, job_evaluator.FAULTS_IN_A_ROW):  # imitates earlier attempts
            devices.note_fault(connection, place, f"before {number}")
    until(lambda: [device.state for device in listed(client)] == ["quarantined"])
    (device,) = listed(client)
    assert "expected a GPU" in str(device.reason)
    with client.database.begin() as connection:
        assert jobs.states(connection, [job_id]) == {
            job_id: JobState.QUEUED
        }  # for a device that is there
    assert attempts(client, [job_id]) == [0]
    assert worker.poll() is None
