"""Datasets that are started and stopped over the web: with the audit's record, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient

from app.export import Spec, background
from app.store import tables
from app.store.postgres.database import Database, DatabaseUnavailableError
from app.store.user import audit
from tests.integration import audited
from tests.integration.overlap import started, waits_or_ends


@pytest.fixture
def spawned(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Jobs that a process would be started for."""
    found: list[Any] = []
    monkeypatch.setattr(background, "_spawn", lambda _, job_id: found.append(job_id))
    return found


def states(database: Database) -> list[str]:
    with database.begin() as connection:
        return list(connection.scalars(sa.select(tables.export_jobs.c.state)))


def away(*_: Any) -> None:
    raise DatabaseUnavailableError("PostgreSQL went away")


def test_a_dataset_without_a_record_is_not_started(
    site: FlaskClient, database: Database, spawned: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"spec": {"format": "trl_sft"}}
    with monkeypatch.context() as broken:
        broken.setattr(audit, "record", away)
        assert site.post("/v1/exports", json=body).status_code == 503
    assert (states(database), spawned) == ([], [])
    made = site.post("/v1/exports", json=body)
    assert (made.status_code, len(spawned)) == (202, 1)
    path = f"/v1/exports/{made.json['export_job_id']}"
    with monkeypatch.context() as broken:
        broken.setattr(audit, "record", away)
        assert site.delete(path).status_code == 503
        assert site.post(f"{path}:resume").status_code == 503
    assert (states(database), len(spawned)) == (["queued"], 1)
    assert site.delete(path).json["state"] == "cancelled"
    with database.begin() as connection:
        assert [event.action for event in audited.events(connection)] == [
            "export.cancel",
            "export.add",
        ]


def test_two_starts_at_the_same_moment_count_each_other(
    database: Database, spawned: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "MAKING", 1)

    def first(connection: sa.Connection, _: Any) -> None:
        with started(lambda: background.start(database, Spec(), tmp_path)) as later:
            waits_or_ends(database, later)
            connection.commit()
            with pytest.raises(background.BusyError):
                later.result()

    background.start(database, Spec(), tmp_path, first)
    assert len(spawned) == 1
