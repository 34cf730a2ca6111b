"""`assay workers drain | quarantine | resume` and `assay db prune | backup |
restore`, as an operator types them.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner, Result

from app.cli import db, workers
from app.domain.device import DeviceId
from app.settings import Settings
from app.store import tables
from app.store.postgres.database import Database
from app.store.queue import devices, idempotency


@pytest.fixture
def fleet(database: Database) -> None:
    with database.begin() as connection:
        for index in range(2):
            devices.register(
                connection,
                DeviceId(device_class="h200", node="box", index=index),
                worker=f"h200-{index}",
            )


def assay(settings: Settings, *arguments: str) -> Result:
    verb = {"workers": workers.command, "db": db.command}[arguments[0]]
    return CliRunner().invoke(verb, list(arguments[1:]), obj=settings)


@pytest.mark.usefixtures("fleet")
def test_devices_are_taken_out_and_come_back(settings: Settings) -> None:
    said = json.loads(
        assay(settings, "workers", "drain", "box", "--reason", "new driver", "--json").stdout
    )
    assert [(device["device"], device["state"]) for device in said] == [
        ("box.0", "draining"),
        ("box.1", "draining"),
    ]
    assert said[0]["changed_by"].endswith(" (assay)")
    shown = assay(settings, "workers", "quarantine", "box.1", "--reason", "Xid 79").stdout
    assert "quarantined" in shown
    assert "Xid 79" in shown
    assert assay(settings, "workers", "drain", "box").exit_code == 2  # a reason is asked for
    with pytest.raises(
        devices.UnknownDeviceError, match="no device 'bux'; expected one of box, box"
    ):
        raise assay(settings, "workers", "resume", "bux").exception
    said = json.loads(assay(settings, "workers", "resume", "box", "--json").stdout)
    assert [device["state"] for device in said] == ["online", "online"]


def test_a_worker_is_alive_while_its_own_device_is_heard_of(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not while another device of the host is, nor one of another class with its number."""
    monkeypatch.setattr("app.cli.workers.socket.gethostname", lambda: "Box.rack")
    with database.begin() as connection:
        devices.register(
            connection, DeviceId(device_class="h200", node="box", index=1), worker="h200-1"
        )
    own = replace(settings, device_class="h200", device_index=1)
    others = [replace(own, device_index=0), replace(own, device_class="cpu")]
    assert [assay(each, "workers", "alive").exit_code for each in (own, *others)] == [0, 1, 1]
    monkeypatch.setattr("app.store.queue.devices.SILENT_S", -1.0)
    assert assay(own, "workers", "alive").exit_code == 1


def test_the_database_is_pruned_saved_and_put_back(settings: Settings, tmp_path: Path) -> None:
    said = json.loads(
        assay(settings, "db", "prune", "--profiles-older-than", "30d", "--dry-run", "--json").stdout
    )
    assert said == dict.fromkeys(
        ("found", "found_bytes", "deleted", "keys_found", "keys_deleted"), 0
    )
    wrong = assay(settings, "db", "prune", "--profiles-older-than", "thirty")
    assert wrong.exit_code == 2
    assert "expected hours, days or weeks (12h, 30d, 8w), got 'thirty'" in wrong.output
    file = str(tmp_path / "assay.dump")
    assert assay(settings, "db", "backup", file).exit_code == 0
    assert assay(settings, "db", "restore", file).exit_code == 2  # without --yes
    assert "the database is as it was" in assay(settings, "db", "restore", file, "--yes").stdout


def test_pruning_forgets_old_idempotency_keys(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "BATCH", 2)
    k = tables.idempotency_keys.c
    with database.begin() as connection:
        idempotency.conflicts(connection, {f"key {number}": "request" for number in range(5)})
        earlier = k.created_at - sa.func.make_interval(0, 0, 0, 0, 0, 0, idempotency.KEPT_S)
        connection.execute(
            sa.update(tables.idempotency_keys)
            .where(k.key_sha256 < "key 3")
            .values(created_at=earlier)
        )
    prune = ("db", "prune", "--profiles-older-than", "30d", "--json")
    for arguments, deleted in ((("--dry-run",), 0), ((), 3)):
        said = json.loads(assay(settings, *prune, *arguments).stdout)
        assert (said["keys_found"], said["keys_deleted"]) == (3, deleted)
    with database.begin() as connection:
        assert idempotency.conflicts(
            connection, {f"key {number}": "another" for number in range(5)}
        ) == {
            "key 3",
            "key 4",
        }
