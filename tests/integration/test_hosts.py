"""Three hosts on a network: they join, share the work, serve pinned jobs, lose their
cable and come back.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from app import enqueue
from app.client import Client
from app.domain.job import JobState
from app.settings import Settings
from app.store import tables
from app.store.queue import devices, jobs
from tests.integration import fakes, hosts
from tests.waiting import LIMIT_S, until

pytestmark = pytest.mark.slow
NAMES = ("ant", "bee", "cat")


@pytest.fixture
def three(settings: Settings) -> Iterator[hosts.Network]:
    if missing := hosts.available():
        pytest.skip(missing)
    with hosts.network(settings) as network:
        for index, name in enumerate(NAMES):
            network.add(name)
            network.start_worker(name, device_class="h200", device_index=index, module=fakes.WORKER)
        yield network


def submit(client: Client, *candidates: str, **fields: Any) -> list[UUID]:
    asked = [fakes.request(each, device_class="h200", **fields) for each in candidates]
    return enqueue.enqueue(client.database, client.broker, asked)


def finished(client: Client, job_ids: list[UUID]) -> None:
    results = client.wait(job_ids, timeout_s=LIMIT_S)
    assert [result["state"] for result in results] == ["finished"] * len(job_ids)


def listed(client: Client) -> list[devices.Device]:
    with client.database.begin() as connection:
        return devices.listed(connection)


def all_running(client: Client, job_ids: list[UUID]) -> bool:
    with client.database.begin() as connection:
        return set(jobs.states(connection, job_ids).values()) == {JobState.RUNNING}


def test_three_hosts(client: Client, three: hosts.Network, tmp_path: Path) -> None:
    until(lambda: len(listed(client)) == 3)
    assert {device.device for device in listed(client)} == {"ant.0", "bee.1", "cat.2"}

    finished(
        client,
        submit(client, *(f"meet {tmp_path}/met 3\nslow {number / 1e6}" for number in range(3))),
    )

    pinned = submit(client, f"where {tmp_path}/pinned\nslow 0", device="bee")
    pinned += submit(client, f"where {tmp_path}/pinned\nslow 0.001", device="bee.1")
    finished(client, pinned)
    assert (tmp_path / "pinned").read_text().split() == ["1", "1"]

    with client.database.begin() as connection:
        devices.drain(connection, "ant", reason="new driver", changed_by="test")
    rest = submit(
        client, *(f"where {tmp_path}/rest\nslow {0.05 + number / 1e6}" for number in range(10))
    )
    finished(client, rest)
    assert set((tmp_path / "rest").read_text().split()) <= {"1", "2"}
    with client.database.begin() as connection:
        devices.resume(connection, "ant", changed_by="test")

    slow = submit(
        client, *(f"where {tmp_path}/slow\nslow {3 + number / 1e6}" for number in range(3))
    )
    until(lambda: all_running(client, slow))
    three.cut(
        "cat"
    )  # its lease lapses, its job runs elsewhere, and its own result is refused when it is back
    finished(client, slow)
    ran = sorted((tmp_path / "slow").read_text().split())
    assert ran in (["0", "0", "1", "2"], ["0", "1", "1", "2"])
    three.restart_helpers("cat")
    with client.database.begin() as connection:
        stored = connection.execute(sa.select(tables.evaluations.c.job_id)).scalars().all()
    assert len(stored) == len(set(stored)) == 18
    finished(
        client,
        submit(client, *(f"meet {tmp_path}/again 3\nslow {number / 1e6}" for number in range(3))),
    )
