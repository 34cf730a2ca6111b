"""Datasets that are made while PostgreSQL goes away at their end: recorded once, and not lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from app import export
from app.domain.source.near_duplicates import Similarity
from app.export import background, build, render_pool, working_folder
from app.store import tables
from app.store.dataset import export_jobs, exports, listing
from app.store.postgres.database import Database, DatabaseUnavailableError
from tests.integration import dataset_seed
from tests.integration.rendering import render_here

SPEC = export.Spec(similarity=Similarity.RAW)


@pytest.fixture
def own(database: Database, monkeypatch: Any) -> Database:
    monkeypatch.setattr(render_pool.Pool, "_submit", render_here)
    dataset_seed.fill(database)
    return database


@pytest.fixture
def job_id(own: Database, tmp_path: Path, monkeypatch: Any) -> UUID:
    """A job that no process makes yet."""
    monkeypatch.setattr(background, "_spawn", lambda *_: None)
    monkeypatch.setattr(background, "RETRY_S", 0.0)
    return background.start(own, SPEC, tmp_path)


def recorded(database: Database) -> list[exports.Export]:
    with database.begin() as connection:
        found = [exports.get(connection, one.export_id) for one in listing.datasets(connection)]
    return [one for one in found if one is not None]


def lose_the_answer(monkeypatch: Any, *, stored: bool) -> None:
    """PostgreSQL goes away once, in the commit that records a dataset: before or after it."""
    begin, add = Database.begin, exports.add
    recording: list[bool] = []

    def added(*arguments: Any, **options: Any) -> None:
        add(*arguments, **options)
        recording.append(True)

    @contextmanager
    def begun(self: Database) -> Iterator[sa.Connection]:
        with begin(self) as connection:
            yield connection
            lost = recording == [True]
            if lost and not stored:
                recording.append(False)
                raise DatabaseUnavailableError("PostgreSQL went away")
        if lost:
            recording.append(False)
            raise DatabaseUnavailableError("PostgreSQL went away")

    monkeypatch.setattr(exports, "add", added)
    monkeypatch.setattr(Database, "begin", begun)


@pytest.mark.parametrize("stored", [True, False])
def test_a_dataset_whose_commit_has_no_answer_is_recorded_once(
    own: Database, tmp_path: Path, monkeypatch: Any, stored: bool
) -> None:
    lose_the_answer(monkeypatch, stored=stored)
    with pytest.raises(DatabaseUnavailableError):
        export.export(own, SPEC, tmp_path / "set")
    monkeypatch.setattr(build, "run", None)  # nothing is selected or rendered again
    manifest = export.export(own, SPEC, tmp_path / "set")
    [one] = recorded(own)
    assert str(one.export_id) == manifest.export_id
    assert one.manifest["manifest_sha256"] == manifest.sealed()["manifest_sha256"]
    assert export.verify(tmp_path / "set") == []
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_another_selection_does_not_take_what_is_left(
    own: Database, tmp_path: Path, monkeypatch: Any
) -> None:
    lose_the_answer(monkeypatch, stored=False)
    with pytest.raises(DatabaseUnavailableError):
        export.export(own, SPEC, tmp_path / "set")
    other = export.Spec(similarity=Similarity.RAW, where="turn = 0")
    assert export.export(own, other, tmp_path / "set").where == "turn = 0"


def test_a_damaged_rest_is_made_again(own: Database, tmp_path: Path, monkeypatch: Any) -> None:
    lose_the_answer(monkeypatch, stored=False)
    with pytest.raises(DatabaseUnavailableError):
        export.export(own, SPEC, tmp_path / "set")
    [data] = (tmp_path / ".set.unfinished/data").glob("train-*.parquet")
    data.write_bytes(b"half")
    export.export(own, SPEC, tmp_path / "set")
    assert export.verify(tmp_path / "set") == []


@pytest.mark.parametrize("stored", [True, False])
def test_a_job_goes_on_by_itself(
    own: Database, job_id: UUID, monkeypatch: Any, stored: bool
) -> None:
    lose_the_answer(monkeypatch, stored=stored)
    background.run(own, job_id)
    job = background.progress(own, job_id)
    [one] = recorded(own)
    assert job is not None
    assert (job.state, job.export_id) == ("finished", one.export_id)
    assert export.verify(Path(job.directory)) == []


def test_a_job_that_made_its_dataset_is_finished_when_it_is_resumed(
    own: Database, job_id: UUID, monkeypatch: Any
) -> None:
    monkeypatch.setattr(background, "AWAY_S", -1.0)
    finish = export_jobs.finish

    def away(*_: Any) -> None:
        raise DatabaseUnavailableError("PostgreSQL is away")

    monkeypatch.setattr(export_jobs, "finish", away)
    with pytest.raises(DatabaseUnavailableError):
        background.run(own, job_id)
    monkeypatch.setattr(export_jobs, "finish", finish)
    silent_since = sa.func.now() - sa.func.make_interval(0, 0, 0, 0, 0, 0, export_jobs.SILENT_S + 1)
    with own.begin() as connection:
        connection.execute(sa.update(tables.export_jobs).values(heartbeat_at=silent_since))
    background.run(own, job_id)
    job = background.progress(own, job_id)
    [one] = recorded(own)
    assert job is not None
    assert (job.state, job.export_id) == ("finished", one.export_id)


def test_a_process_that_is_only_slow_is_not_failed_by_a_second_one(
    own: Database, job_id: UUID
) -> None:
    job = background.progress(own, job_id)
    assert job is not None
    with working_folder.folder(Path(job.directory)):
        background.run(own, job_id)
    job = background.progress(own, job_id)
    assert job is not None
    assert (job.state, job.error) == ("running", None)
