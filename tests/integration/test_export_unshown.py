"""Attempts that are chosen and cannot be shown: the rows beside them keep their places, and the
reasons are told.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from app import export
from app.export import ExportError, row_view, verify
from app.export.row_view import Asked
from app.store.postgres.database import Database
from app.store.trajectory import trajectories
from tests.integration import dataset_seed
from tests.integration.dataset_seed import code, evaluate, problem, turn
from tests.integration.exported import rows_in

KEY = "hf_" + "a1B2" * 9
"""A secret, by the form of a Hugging Face token."""


def told(database: Database, number: int, answer: str, stored: dataset_seed.Stored | None) -> None:
    with database.begin() as connection:
        [problem_id] = dataset_seed.problems.add(connection, [problem(number)])
        trajectories.add(
            connection,
            problem_id=problem_id,
            backend="triton",
            turns=[turn((f"ask {number}",), answer, stored)],
        )


def fill(database: Database, secrets: set[int], count: int) -> None:
    """An answer on each problem; some hold a secret."""
    for number in range(count):
        with database.begin() as connection:
            stored = evaluate(connection, problem(number), code(f"a{number}").encode())
        said = f"My key is {KEY}." if number in secrets else "Here."
        told(database, number, f"{said}\n```python\n{code(f'a{number}')}```", stored)


def made(database: Database, out: Path, **options: Any) -> export.Manifest:
    return export.export(database, export.spec_of({"val_fraction": 0} | options), out)


def test_rows_behind_one_that_is_not_shown_lead_to_their_own_evaluations(
    database: Database, tmp_path: Path
) -> None:
    fill(database, {0, 1, 2}, 6)
    manifest = made(database, tmp_path / "set", similarity="none")
    assert (manifest.rows, sum(manifest.dropped_in_rendering.values())) == (3, 3)
    rows = rows_in(tmp_path / "set")
    [file] = sorted((tmp_path / "set/data").glob("*.parquet"))
    shown = row_view.view(file, Asked())["rows"]
    for place, (row, one) in enumerate(zip(rows, shown, strict=True)):
        [origin] = one["origins"]
        assert origin["evaluation_id"] == row["evaluation_id"]
        [found] = export.why(tmp_path / "set", row["evaluation_id"])
        assert [each["row"] for each in found["rows"]] == [place]
    lines = pq.read_table(tmp_path / "set/lineage-00000.parquet").column("index").to_pylist()
    assert lines != [0, 1, 2]


def test_the_reasons_are_told_where_no_row_can_be_shown(database: Database, tmp_path: Path) -> None:
    fill(database, {0, 1}, 2)
    with pytest.raises(ExportError, match="2 rows came in, none left: 2 × secret: Hugging Face"):
        made(database, tmp_path / "set", similarity="none")
    assert not any(tmp_path.iterdir())


def test_rewards_have_a_row_for_an_empty_answer(database: Database, tmp_path: Path) -> None:
    fill(database, set(), 1)
    for number, answer in enumerate(("", " \n", "<think>\nhm\n</think>\n\n"), start=1):
        told(database, number, answer, None)
    manifest = made(database, tmp_path / "set", format="rewards")
    assert (manifest.rows, manifest.dropped_in_rendering) == (4, {})
    rows = rows_in(tmp_path / "set")
    empty = [row for row in rows if row["status"] == "no_code"]
    assert sorted(row["completion"] for row in empty) == ["", " \n", "<think>\nhm\n</think>\n\n"]
    assert all(row["reward_dr_kernel_pr"] == row["kevin_score"] == 0 for row in empty)
    assert verify(tmp_path / "set") == []
    made(database, tmp_path / "dropped", format="rewards", reasoning="drop_all")
    again = [row for row in rows_in(tmp_path / "dropped") if row["status"] == "no_code"]
    assert sorted(row["completion"] for row in again) == ["", "", " \n"]
