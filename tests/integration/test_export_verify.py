"""Findings of `verify` in a dataset that was changed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from app import cli
from app.export import verify
from app.store.postgres.database import Database
from tests.integration.exported import make


def test_verification_follows_no_link(filled: Database, tmp_path: Path) -> None:
    make(filled, tmp_path / "set")
    (tmp_path / "link").symlink_to(tmp_path / "set")
    [problem] = verify(tmp_path / "link")
    assert "expected a folder, got a link" in problem
    for name, target in (("folder", tmp_path), ("data/more", tmp_path / "set/README.md")):
        (tmp_path / "set" / name).symlink_to(target)
        assert [line.partition(":")[0] for line in verify(tmp_path / "set")] == [name]
        (tmp_path / "set" / name).unlink()
    (tmp_path / "set/empty").mkdir()
    assert verify(tmp_path / "set") == ["empty: an empty folder, not in the manifest"]


def rewrite(path: Path, change: Callable[[list[dict[str, Any]]], object]) -> None:
    table = pq.ParquetFile(path).read()
    rows = table.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)


class TestVerify:
    @pytest.fixture
    def made(self, filled: Database, tmp_path: Path) -> Path:
        make(filled, tmp_path / "set", val_fraction=0.4)
        return tmp_path / "set"

    def test_an_edited_row_is_named(self, made: Path) -> None:
        file = made / "data/train-00000.parquet"
        evaluation = pq.ParquetFile(file).read().to_pylist()[3]["evaluation_id"]
        rewrite(file, lambda rows: rows[3].update(speedup=9.0))
        found = verify(made)
        assert f"data/train-00000.parquet: row 3 (evaluation {evaluation}) was changed" in found
        assert not any("row 2" in line for line in found)

    def test_a_removed_and_an_added_row_are_found(self, made: Path) -> None:
        count = len(pq.ParquetFile(made / "data/train-00000.parquet").read())
        rewrite(made / "data/train-00000.parquet", lambda rows: rows.pop())
        assert f"data/train-00000.parquet: expected {count} rows, got {count - 1}" in verify(made)
        rewrite(made / "data/train-00000.parquet", lambda rows: rows.extend([rows[0], rows[0]]))
        assert f"data/train-00000.parquet: expected {count} rows, got {count + 1}" in verify(made)

    def test_swapped_rows_are_found(self, made: Path) -> None:
        rewrite(made / "data/train-00000.parquet", lambda rows: rows.reverse())
        assert any("row 0" in line and "was changed" in line for line in verify(made))

    def test_missing_and_extra_files_are_named(self, made: Path) -> None:
        (made / "data/validation-00000.parquet").unlink()
        (made / "data/train-00001.parquet").write_bytes(b"PAR1")
        (made / "notes.txt").write_text("mine")
        found = verify(made)
        assert "data/validation-00000.parquet: missing" in found
        assert "data/train-00001.parquet: not in the manifest" in found
        assert "notes.txt: not in the manifest" in found

    @pytest.mark.parametrize(
        "name", ["README.md", "lineage-00000.parquet", "data/train-00000.parquet"]
    )
    def test_one_flipped_byte_is_found_wherever_it_is(self, made: Path, name: str) -> None:
        whole = (made / name).read_bytes()
        for position in range(0, len(whole), max(1, len(whole) // 40)):
            (made / name).write_bytes(
                whole[:position] + bytes([whole[position] ^ 0x55]) + whole[position + 1 :]
            )
            assert any(line.startswith(f"{name}: expected sha256") for line in verify(made))
        (made / name).write_bytes(whole)
        assert verify(made) == []

    def test_an_edited_manifest_breaks_its_own_hash(self, made: Path) -> None:
        body = json.loads((made / "manifest.json").read_text())
        (made / "manifest.json").write_text(json.dumps(body | {"where": "verdict = clean"}))
        assert verify(made) == ["manifest.json: was changed: its own hash does not fit"]

    def test_wrong_row_ids_are_found(self, made: Path) -> None:
        rewrite(
            made / "lineage-00000.parquet",
            lambda rows: rows[0].update(evaluation_id=rows[1]["evaluation_id"]),
        )
        assert "lineage-00000.parquet: the content of its rows was changed" in verify(made)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("{", "expected JSON"),
            ("[]", "expected a manifest of schema version 2"),
            ('{"schema_version": 2}', "expected manifest_sha256 to be a str"),
            ("\udcff", "expected JSON"),
        ],
    )
    def test_a_manifest_that_is_none_is_one_problem(
        self, made: Path, text: str, message: str
    ) -> None:
        (made / "manifest.json").write_bytes(text.encode("utf-8", "surrogateescape"))
        [found] = verify(made)
        assert message in found

    def test_a_path_out_of_the_dataset_is_refused(self, made: Path) -> None:
        body = json.loads((made / "manifest.json").read_text())
        body["files"][0]["path"] = "../../etc/passwd"
        (made / "manifest.json").write_text(json.dumps(body))
        [found] = verify(made)
        assert "expected the entry of a file inside the dataset" in found

    def test_no_dataset_at_all(self, made: Path) -> None:
        shutil.rmtree(made)
        [found] = verify(made)
        assert found.startswith("manifest.json: cannot be read")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--why", "0199f3c2-0000-7000-8000-000000000000"], "expected a dataset with manifest"),
        (["--against", "."], "expected a dataset with manifest.json"),
        (["--against", ".", "--why", "0199f3c2-0000-7000-8000-000000000000"], "got both"),
    ],
)
def test_a_folder_that_is_no_dataset_is_bad_input(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    came = CliRunner().invoke(cli.main, ["verify", str(tmp_path), *arguments])
    assert (came.exit_code, message in came.output) == (2, True)
