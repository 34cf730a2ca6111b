"""`assay doctor` names each fault and its remedy; it starts nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from celery import Celery
from click.testing import CliRunner

from app import enqueue
from app.cli import diagnostics
from app.cli.doctor import command
from app.cli.doctor_check import Check, CheckStatus
from app.client import Client
from app.domain.collection.call import EndpointConfig
from app.domain.device import DeviceId
from app.domain.problem import Problem
from app.domain.worker_instance import WorkerInstance
from app.settings import Settings
from app.store.collection import endpoints, workers
from app.store.postgres import schema_revisions
from app.store.postgres.database import Database
from app.store.queue import devices
from app.store.trajectory import problems
from tests.integration import fakes


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.cli.host_checks.gpus.listed", list)


def examined(settings: Settings) -> dict[str, Check]:
    return {check.name: check for check in diagnostics.run(settings)}


def outcomes(settings: Settings) -> dict[str, str]:
    return {name: str(check.outcome) for name, check in examined(settings).items()}


def test_a_healthy_service_with_a_queue_that_no_worker_serves(
    settings: Settings, database: Database, broker: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = examined(settings)
    assert found["sandbox"].outcome in (CheckStatus.OK, CheckStatus.FAIL)  # depends on this host
    assert "forbidden acts" in found["sandbox"].found
    assert (
        found["tables"].found
        == f"revision {schema_revisions.head()}, this version wants {schema_revisions.head()}"
    )
    good = ("python", "libraries", "database", "tables", "durability", "clock", "broker")
    assert {found[name].outcome for name in good} == {CheckStatus.OK}
    assert (found["workers"].outcome, found["web"].outcome) == (CheckStatus.WARN, CheckStatus.WARN)

    monkeypatch.setattr(diagnostics, "sandbox", lambda: iter(()))  # takes two seconds
    enqueue.enqueue(database, broker, [fakes.request(), fakes.request(device_class="h200")])
    with database.begin() as connection:
        devices.register(connection, DeviceId(device_class="cpu", node="here", index=0), worker="w")
        devices.register(
            connection, DeviceId(device_class="h200", node="there", index=0), worker="w"
        )
        devices.quarantine(connection, "there", reason="Xid 79", changed_by="ann")
    found = examined(settings)
    assert found["queue cpu"].outcome == CheckStatus.OK
    assert found["queue gpu.h200"].found == "1 jobs wait, no worker serves it"
    assert found["queue gpu.h200"].outcome == CheckStatus.FAIL
    assert found["device there.0"].found == "quarantined: Xid 79 (ann)"
    assert found["device there.0"].todo.endswith("assay workers resume there.0")

    with database.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '20261121'"))
    assert outcomes(settings)["tables"] == "fail"


def test_two_hosts_of_one_name_are_named(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnostics, "sandbox", lambda: iter(()))
    with database.begin() as connection:
        for index, machine in enumerate(("a", "b")):
            instance = WorkerInstance(machine=machine, namespace="1", pid=7, started="1")
            here = DeviceId(device_class="cpu", node="gpubox", index=index)
            devices.register(connection, here, worker="w", instance=instance)
    found = examined(settings)["node gpubox"]
    assert (found.outcome, "workers of 2 machines" in found.found) == (CheckStatus.FAIL, True)


def test_an_endpoint_that_collections_wait_for_needs_a_worker_with_its_key(
    settings: Settings, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnostics, "sandbox", lambda: iter(()))
    config = EndpointConfig(
        name="far", base_url="http://h/v1", dialect="chat", model="m", key_env="FAR_KEY"
    )
    with client.database.begin() as connection:
        endpoints.add(connection, config)
        problems.add(
            connection, [Problem(name="softmax", reference=b"class Model: ...", source_set="tests")]
        )
    found = examined(settings)
    assert (found["endpoint far"].outcome, found["probe of far"].outcome) == (
        CheckStatus.WARN,
        CheckStatus.WARN,
    )
    assert found["probe of far"].todo == "assay endpoint probe far"

    client.collect(
        {
            "name": "a",
            "endpoint": "far",
            "problems": {"source_set": "tests"},
            "strategy": {"name": "independent"},
        }
    )
    found = examined(settings)
    assert found["endpoint far"].outcome == CheckStatus.FAIL
    assert found["endpoint far"].found == "0 workers online, 0 calls in flight, 1 due"
    assert found["endpoint far"].todo.startswith("set FAR_KEY where `assay up` or")

    with client.database.begin() as connection:
        workers.beat(connection, worker="w", endpoint="far", in_flight=3, has_key=False)
        endpoints.probed(
            connection, endpoints.get(connection, "far"), {"warnings": ["no token ids"]}
        )
    found = examined(settings)
    assert "none of them has FAR_KEY in its environment" in found["endpoint far"].found
    assert found["endpoint far"].outcome == CheckStatus.FAIL
    assert found["probe of far"].found.endswith("; no token ids")

    with client.database.begin() as connection:
        workers.beat(connection, worker="w", endpoint="far", in_flight=3, has_key=True)
        endpoints.probed(connection, endpoints.get(connection, "far"), {"warnings": []})
    found = examined(settings)
    assert (found["endpoint far"].outcome, found["probe of far"].outcome) == (
        CheckStatus.OK,
        CheckStatus.OK,
    )
    assert found["endpoint far"].found == "1 workers online, 3 calls in flight, 1 due"


def test_what_cannot_be_reached_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(diagnostics, "sandbox", lambda: iter(()))
    nothing = Settings(state_dir=tmp_path / "none")
    assert outcomes(nothing)["services"] == "fail"
    assert not nothing.state_dir.exists()
    away = replace(
        nothing,
        database_url="postgresql+psycopg://a:secret@127.0.0.1:1/a",
        broker_url="redis://127.0.0.1:1/0",
    )
    found = outcomes(away)
    assert (found["database"], found["broker"]) == ("fail", "fail")

    done = CliRunner().invoke(command, ["--json"], obj=away)
    assert done.exit_code == 1
    said = json.loads(done.stdout)
    assert said["ok"] is False
    assert "secret" not in done.stdout
    assert "→ start PostgreSQL" in CliRunner().invoke(command, obj=away).stdout
