"""The first rows of a selection, within a limit of time."""

from __future__ import annotations

import sys
import time

import pytest
import sqlalchemy as sa

from app import export as exporting
from app.export import build
from app.export.preview import Preview
from app.store import tables
from app.store.dataset import export_matching
from app.store.postgres.database import Database


def test_a_preview_shows_the_first_rows_problem_by_problem(
    filled: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = exporting.spec_of({"format": "trl_sft", "where": "speedup > 0", "similarity": "raw"})
    stages: list[str] = []
    by_key = exporting.preview(
        filled, spec, 3, progress=lambda stage, _done, _total: stages.append(stage)
    )
    assert by_key.is_whole
    assert stages[0] == "matching", "the first answer does not wait for the count"
    monkeypatch.setattr(export_matching, "MOST_MATCHING", 0)
    assert exporting.preview(filled, spec, 3) == by_key
    monkeypatch.setattr(sys.modules["app.export.preview"], "AT_ONCE", 0)
    assert exporting.preview(filled, spec, 3) == by_key
    assert len(by_key.rows) == 3


def test_a_preview_computes_facts_about_texts_only_where_rows_are_left(own: Database) -> None:
    facts = [
        sa.select(sa.func.count()).select_from(each)
        for each in (tables.turn_features, tables.candidate_features)
    ]
    with own.begin() as connection:
        for table in (tables.turn_features, tables.candidate_features):
            connection.execute(table.delete())
    spec = exporting.spec_of({"format": "trl_sft", "min_speedup": 1e6})
    assert exporting.preview(own, spec) == Preview(rows=[], is_whole=True)
    with own.begin() as connection:
        assert [connection.scalar(each) for each in facts] == [0, 0]


def test_a_preview_that_takes_too_long_says_that_there_may_be_more(
    filled: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["app.export.preview"], "AT_ONCE", 0)
    found = exporting.preview(filled, exporting.spec_of({"format": "trl_sft"}), 50, patience_s=0.0)
    assert not found.is_whole
    assert len(found.rows) < 50


def test_a_preview_ends_a_statement_that_runs_into_its_limit(
    filled: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(connection: sa.Connection, *_: object) -> None:
        connection.execute(sa.text("SELECT pg_sleep(20)"))

    monkeypatch.setattr(build, "matching", slow)
    started_s = time.monotonic()
    spec = exporting.spec_of({"format": "trl_sft", "where": "correct"})
    assert exporting.preview(filled, spec, patience_s=0.2) == Preview(rows=[], is_whole=False)
    assert time.monotonic() - started_s < 10
