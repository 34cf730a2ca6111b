"""A disk without room: refusals say why, stored data stay, and commands that make room run."""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient

from app import embedded
from app.cli import diagnostics, errors
from app.cli.doctor_check import CheckStatus
from app.cli.endpoint_workers import EndpointWorkers
from app.embedded import Services
from app.settings import Settings
from app.store.postgres import write_probe
from app.store.postgres.database import Database, DiskFullError
from app.web import write_check
from tests.integration import small_disk
from tests.integration.web_app import opened

NO_ROOM = OSError(errno.ENOSPC, "No space left on device")
FULL = sa.text(
    "DO $$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE ="
    " 'disk_full'; END $$"
)
"""PostgreSQL's error if it has no room for a row."""


def test_a_second_process_attaches(
    settings: Settings, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise NO_ROOM

    monkeypatch.setattr(embedded, "_write", refuse)
    state = Path(services.settings.state_dir)
    with Services(Settings(state_dir=state)) as second:
        assert second.settings.broker_url == services.settings.broker_url


def test_the_database_says_that_its_disk_is_full(database: Database) -> None:
    with (
        pytest.raises(DiskFullError, match="No space left on device"),
        database.begin() as connection,
    ):
        connection.execute(FULL)


def test_a_submission_is_refused_with_the_reason(
    empty_pages: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(connection: sa.Connection, *_: Any, **__: Any) -> None:
        connection.execute(FULL)

    monkeypatch.setattr("app.store.queue.jobs.add", full)
    sent = empty_pages.post(
        "/v1/evaluations", json={"reference": "class Model: ...", "candidate": "x"}
    )
    assert (sent.status_code, sent.headers["Retry-After"]) == (503, "5")
    assert sent.json is not None
    assert sent.json["error"]["message"].startswith("PostgreSQL has no room left on its disk")


def test_a_command_says_which_check_finds_the_disk() -> None:
    refused = errors.translate(NO_ROOM)
    assert refused.exit_code == errors.INFRASTRUCTURE
    assert "assay doctor" in refused.message


def test_a_database_that_is_away_is_reported_once(
    settings: Settings, capfd: pytest.CaptureFixture[str]
) -> None:
    away = Settings(
        database_url="postgresql+psycopg://u@127.0.0.1:1/d", broker_url=settings.broker_url
    )
    kept = EndpointWorkers(away)
    try:
        for moment_s in (0.0, 1_000.0, 2_000.0):
            kept.keep(moment_s)
    finally:
        kept.close()
    assert capfd.readouterr().err.count("endpoints are not known at the moment") == 1


@pytest.fixture
def disk() -> Iterator[Path]:
    """A disk of 200 MB that servers of other users reach, too."""
    above = Path(tempfile.mkdtemp(prefix="assay-disk-", dir="/var/tmp"))
    above.chmod(0o711)
    try:
        with small_disk.mounted(above / "disk", 200) as mounted:
            yield mounted
    finally:
        shutil.rmtree(above)


def test_health_says_that_the_disk_is_full(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_check, "PROBED_S", 0.0)
    monkeypatch.setattr(diagnostics, "sandbox", lambda: iter(()))  # takes two seconds
    with Services(Settings(state_dir=disk / "state")) as running, opened(running.settings) as app:
        pages = app.test_client()
        assert pages.get("/healthz").status_code == 200
        filler = small_disk.fill(disk)
        full = pages.get("/healthz")
        assert (full.status_code, full.json and full.json["reason"]) == (
            503,
            "the database stores nothing: its disk is full",
        )
        found = {check.name: check for check in diagnostics.run(running.settings)}
        assert (found["writes"].outcome, found["disk"].outcome) == (
            CheckStatus.FAIL,
            CheckStatus.FAIL,
        )
        assert found["writes"].found == "the database stores nothing: its disk is full"
        assert "make room" in found["writes"].todo
        filler.unlink()
        assert pages.get("/healthz").status_code == 200


def test_a_read_only_database_stores_nothing(settings: Settings, database: Database) -> None:
    assert write_probe.refusal(database) is None
    with database.begin() as connection:
        name = sa.make_url(str(settings.database_url)).database
        connection.execute(
            sa.text(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
        )
    database.dispose()  # it holds for new connections
    assert "read-only transaction" in str(write_probe.refusal(database))


def test_a_read_only_database_refuses_no_candidate_for_good(
    settings: Settings, database: Database, empty_pages: FlaskClient
) -> None:
    """A server that has failed over may be a standby for a while: trainers take a
    500 for a score of 0.
    """
    with database.begin() as connection:
        name = sa.make_url(str(settings.database_url)).database
        connection.execute(
            sa.text(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
        )
        others = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name AND pid"
            " <> pg_backend_pid()"
        )
        connection.execute(sa.text(others), {"name": name})
    task = {
        "task_id": "t",
        "reference_code": "class Model: ...",
        "kernel_code": "class ModelNew: ...",
    }
    for path, body in (
        ("/v1/evaluations", {"reference": "class Model: ...", "candidate": "x"}),
        ("/v1/reward", {"reference": "class Model: ...", "candidate": "x"}),
        ("/evaluate", task),
        ("/compat/slime/reward", {"response": "r", "label": {"reference": "class Model: ..."}}),
    ):
        sent = empty_pages.post(path, json=body)
        assert (sent.status_code, sent.headers["Retry-After"]) == (503, "5"), path
    assert sent.json["error"]["message"].startswith("PostgreSQL takes no writes now")


def test_writes_are_tried_once_in_a_while(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []
    monkeypatch.setattr(write_probe, "refusal", lambda _: tried.append(1))
    kept = write_check.Writes(database)
    assert [kept.refusal() for _ in range(3)] == [None] * 3
    assert len(tried) == 1
    monkeypatch.setattr(write_check, "PROBED_S", 0.0)
    kept.refusal()
    assert len(tried) == 2
