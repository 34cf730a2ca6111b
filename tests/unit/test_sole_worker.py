"""The device and node name of a worker: no two live workers have the same, and a
dead one holds up none.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.domain.device import DeviceId
from app.domain.worker_instance import WorkerInstance
from app.store.queue import devices
from app.store.queue.other_workers import OtherWorker, shared_names
from workers.worker import sole_worker
from workers.worker.sole_worker import DuplicateWorkerError

HERE = DeviceId(device_class="h200", node="gpubox", index=0)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
OWN = sole_worker.own_instance()
ELSEWHERE = replace(OWN, machine="another")


def rival(instance: WorkerInstance, *, index: int = 0, after_s: float = 0) -> OtherWorker:
    return OtherWorker(
        device=replace(HERE, index=index),
        instance=instance,
        address="10.0.0.7",
        heartbeat_at=NOW + timedelta(0, after_s),
    )


class Looks:
    """Results of looks at the heartbeats, one after the other; the last one for ever."""

    def __init__(self, *found: list[OtherWorker]) -> None:
        self._found = found
        self.number = 0

    def __call__(self, *_: object) -> list[OtherWorker]:
        self.number += 1
        return self._found[min(self.number, len(self._found)) - 1]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses cost no time."""
    now_s = [0.0]

    def sleep(pause_s: float) -> None:
        now_s[0] += pause_s

    monkeypatch.setattr(sole_worker.time, "monotonic", lambda: now_s[0])  # type: ignore[attr-defined]
    monkeypatch.setattr(sole_worker.time, "sleep", sleep)  # type: ignore[attr-defined]


def require(monkeypatch: pytest.MonkeyPatch, *found: list[OtherWorker]) -> int:
    """Number of looks until the place is free."""
    looks = Looks(*found)
    monkeypatch.setattr(sole_worker, "_recent_workers", looks)
    database: Any = None
    sole_worker.require(database, HERE, OWN, sweep_s=5)
    return looks.number


def test_a_free_place_is_taken_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert require(monkeypatch, []) == 1


@pytest.mark.usefixtures("clock")
def test_another_host_of_the_same_name_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    alive = [[rival(ELSEWHERE, index=3)], [rival(ELSEWHERE, index=3, after_s=5)]]
    words = (
        r"node 'gpubox': another machine uses this name, where a worker serves h200 gpubox\.3 .*"
        r" 10\.0\.0\.7: give"
    )
    with pytest.raises(DuplicateWorkerError, match=words):
        require(monkeypatch, *alive)


@pytest.mark.usefixtures("clock")
def test_another_worker_of_the_device_on_this_host_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = replace(OWN, namespace="of a container")
    with pytest.raises(
        DuplicateWorkerError,
        match=f"another worker on this machine serves it .process {other.pid}.",
    ):
        require(monkeypatch, [rival(other)], [rival(other, after_s=5)])


@pytest.mark.usefixtures("clock")
def test_a_worker_that_was_killed_where_it_cannot_be_seen_holds_up_its_successor_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert 20 < require(monkeypatch, [rival(ELSEWHERE)]) < 40, "looks in 15 s"


@pytest.mark.usefixtures("clock")
def test_an_end_in_order_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert require(monkeypatch, [rival(ELSEWHERE)], []) == 2


def test_a_worker_whose_process_has_ended_here_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    assert require(monkeypatch, [rival(replace(OWN, pid=done.pid))]) == 1


def test_a_process_of_the_same_id_is_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert require(monkeypatch, [rival(replace(OWN, started="1"))]) == 1


def test_an_instance_is_the_same_after_it_was_written() -> None:
    assert WorkerInstance.parse(str(OWN)) == OWN
    assert OWN.started.isdigit()


def device(
    node: str, instance: WorkerInstance | None, *, index: int = 0, heard: bool = True
) -> devices.Device:
    written = None if instance is None else str(instance)
    made: dict[str, Any] = {
        "device_id": None,
        "fingerprint": {},
        "heartbeat_at": NOW,
        "worker": "w",
        "state": "online",
    }
    return devices.Device(
        node=node, device_class="h200", device_index=index, instance=written, is_heard=heard, **made
    )


def test_a_name_of_two_machines_is_found_and_one_of_eight_gpus_is_not() -> None:
    eight = [device("one", replace(OWN, pid=index), index=index) for index in range(8)]
    two = [device("two", OWN), device("two", ELSEWHERE, index=1)]
    gone = [
        device("three", OWN),
        device("three", ELSEWHERE, index=1, heard=False),
        device("three", None, index=2),
    ]
    assert shared_names([*eight, *two, *gone]) == {"two": ["the database's host"] * 2}
