"""Exports that PostgreSQL breaks off: the same call goes on, with the parts that are there."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from app import export
from app.domain.dataset.selection import Context
from app.domain.source.near_duplicates import Similarity
from app.export import build, render, render_pool
from app.store.postgres import time_limit
from app.store.postgres.database import Database, DatabaseUnavailableError
from tests.integration import dataset_seed
from tests.integration.rendering import render_here

SPEC = export.Spec(similarity=Similarity.RAW, context=Context.WRONG, val_fraction=0.4)


@pytest.fixture
def own(database: Database) -> Database:
    dataset_seed.fill(database)
    return database


def test_an_export_that_postgresql_breaks_off_goes_on(
    own: Database, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(build, "PART_ROWS", 5)
    monkeypatch.setattr(render_pool.Pool, "_submit", render_here)
    rendered: list[int] = []
    part = render.Renderer.part

    def counted(self: render.Renderer, number: int, plan_sha256: str) -> render.Part:
        rendered.append(number)
        if rendered == [0, 1, 2]:
            raise DatabaseUnavailableError("PostgreSQL restarts")
        return part(self, number, plan_sha256)

    monkeypatch.setattr(render.Renderer, "part", counted)
    with pytest.raises(DatabaseUnavailableError):
        export.export(own, SPEC, tmp_path / "set")
    for name in (
        "data/train-00009.parquet",
        "decisions-00009.parquet",
    ):
        (tmp_path / ".set.unfinished" / name).write_bytes(b"an earlier call's")
    assert export.export(own, SPEC, tmp_path / "set").rows == dataset_seed.CORRECT_AND_CLEAN
    assert rendered == [0, 1, 2, 2, 3]
    assert export.verify(tmp_path / "set") == []
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_an_export_whose_connection_is_ended_goes_on(own: Database, tmp_path: Path) -> None:
    ended: list[str] = []

    def end_once(stage: str, _done: int, _total: int) -> None:
        if stage != "selecting" or ended:
            return
        ended.append(stage)
        with own.begin() as connection:
            others = "datname = current_database() AND pid <> pg_backend_pid()"
            connection.execute(
                sa.text(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
            )

    with pytest.raises(DatabaseUnavailableError):
        export.export(own, SPEC, tmp_path / "set", progress=end_once)
    assert [path.name for path in tmp_path.iterdir()] == [".set.unfinished"]
    assert export.export(own, SPEC, tmp_path / "set").rows == dataset_seed.CORRECT_AND_CLEAN
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_errors_of_a_copy_are_errors_of_the_store(own: Database) -> None:
    with pytest.raises(DatabaseUnavailableError, match="shut down"), own.snapshot():
        raise psycopg.errors.AdminShutdown("shut down")
    with (
        pytest.raises(time_limit.TimeOverError),
        own.snapshot() as connection,
        time_limit.until(connection, time.monotonic() + 60),
    ):
        raise psycopg.errors.QueryCanceled("canceling statement due to statement timeout")
