"""A dataset's rows as a table, the whole folder as one download, its name and description."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pyarrow.parquet as pq
import pytest
from flask.testing import FlaskClient

from app import export
from app.export import row_view
from app.export.row_view import Asked
from app.settings import Settings
from app.store.postgres.database import Database
from app.store.trajectory import problems, trajectories
from app.web import create_app, export_subprocess, selection_form
from app.web.pages import dataset_rows
from tests.integration.dataset_seed import fill, problem, turn
from tests.integration.web_app import opened


@pytest.fixture
def made(
    settings: Settings, database: Database, tmp_path: Path
) -> Iterator[tuple[FlaskClient, str, Path]]:
    """A site, the path of a dataset's page, and its folder."""
    fill(database)
    folder = tmp_path / "sft"
    export.export(database, export.Spec(format="trl_sft"), folder)
    app = create_app(settings)
    app.testing = True
    site = app.test_client()
    export_id = UUID(site.get("/exports.json").json["exports"][0]["export_id"])
    yield site, f"/exports/{export_id}", folder
    app.extensions["assay"]["database"].dispose()


def test_rows_are_a_table_with_search_and_statistics(made: tuple[FlaskClient, str, Path]) -> None:
    site, path, _ = made
    text = site.get(f"{path}/rows").text
    assert re.search('<th scope="col"><a class="sort" href="[^"]*sort=prompt">prompt', text)
    assert "Distinct" in text
    none = site.get(f"{path}/rows?search=no+such+text+anywhere").text
    assert "No row matches" in none
    assert site.get(f"{path}/rows?file=../../etc/passwd").status_code == 404
    assert site.get(f"{path}/rows?offset=x").status_code == 400


def test_numbers_are_short_in_the_table_and_exact_in_the_row(
    made: tuple[FlaskClient, str, Path],
) -> None:
    site, path, folder = made
    exact = pq.read_table(folder / "data/train-00000.parquet").column("reference_us")[0].as_py()
    cell = row_view.view(folder / "data/train-00000.parquet", Asked())["rows"][0]["cells"]
    assert float(cell["reference_us"]) == pytest.approx(exact, rel=1e-4)
    assert len(cell["reference_us"]) <= len("1.2345e+06")
    assert str(exact) in site.get(f"{path}/rows/0").text


def test_the_next_errand_has_a_process_that_waits(
    made: tuple[FlaskClient, str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    site, path, _ = made
    ahead = export_subprocess._Ahead()
    monkeypatch.setattr(export_subprocess, "_ahead", ahead)
    assert site.get(f"{path}/rows").status_code == 200
    assert ahead._process is None  # no server: nothing waits
    export_subprocess.prepare()
    try:
        assert site.get(f"{path}/rows").status_code == 200
        waiting = ahead._process
        assert waiting is not None
        assert site.get(f"{path}/rows").status_code == 200
        assert waiting.returncode == 0  # it answered
        following = ahead._process
        assert following is not None
        following.kill()
        following.wait()
        assert site.get(f"{path}/rows").status_code == 200
        last = ahead._process
        assert last is not None
    finally:
        ahead.end()
    assert last.returncode is not None


def test_a_process_that_waits_ends_with_the_server() -> None:
    entry = [sys.executable, "-m", export_subprocess.MODULE]
    assert subprocess.run(entry, stdin=subprocess.DEVNULL, check=True).returncode == 0


def test_the_whole_folder_is_one_archive(made: tuple[FlaskClient, str, Path]) -> None:
    site, path, folder = made
    with tarfile.open(fileobj=io.BytesIO(site.get(f"{path}/dataset.tar").data)) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
        manifest = archive.extractfile(archive.getmembers()[0])
        assert manifest is not None
        assert manifest.read() == (folder / "manifest.json").read_bytes()
    assert names[0] == "manifest.json"
    assert set(names) == {
        each.relative_to(folder).as_posix() for each in folder.rglob("*") if each.is_file()
    }


def test_the_card_is_rendered_and_its_metadata_folded(made: tuple[FlaskClient, str, Path]) -> None:
    site, path, folder = made
    shown = site.get(path).text.partition("Dataset card")[2]
    text, _, metadata = shown.partition("<summary>Metadata (YAML)</summary>")
    assert "pretty_name" in metadata
    assert "pretty_name" not in text
    assert "<table>" in text
    (folder / "README.md").unlink()
    assert "Dataset card" not in site.get(path).text


def test_a_dataset_has_a_name_and_a_description(made: tuple[FlaskClient, str, Path]) -> None:
    site, path, _ = made
    token = re.search(r'name="csrf_token" value="([^"]+)"', site.get(path).text)
    assert token is not None
    form = {
        "csrf_token": token[1],
        "name": "Round 3",
        "description": "Only **fast** ones. <script>alert(1)</script>",
    }
    assert site.post(f"{path}/describe", data=form).status_code == 302
    text = site.get(path).text
    assert "<h1>Round 3</h1>" in text
    assert "<strong>fast</strong>" in text
    assert "<script>alert" not in text
    assert "Round 3" in site.get("/exports").text
    assert site.post(f"{path}/describe", data=form | {"name": "x" * 101}).status_code == 400
    refused = site.post(f"{path}/describe", data=form | {"name": "a\0b"})
    assert (refused.status_code, "name: expected text without NUL" in refused.text) == (400, True)


def test_the_form_of_a_selection_explains_its_fields_and_defaults(
    made: tuple[FlaskClient, str, Path],
) -> None:
    site, _, _ = made
    shown = site.get("/exports/new").text
    for option in selection_form.OPTIONS:
        assert f'id="{option.name}-help"' in shown
        assert f'aria-describedby="{option.name}-help' in shown
    assert "Default: 0.05." in shown
    assert "as usual" not in shown
    for name, text in (("min_speedup", "abc"), ("val_fraction", "7"), ("kind", "odd")):
        answer = site.get(f"/exports/new?{name}={text}")
        assert answer.status_code == 400
        beside = answer.text.split(f'id="{name}-help"')[1][:600]
        assert 'class="complaint" id="error"' in beside.split('<div class="field">')[0]
    wrong = site.get("/exports/new?where=correct+and+clean")
    assert wrong.status_code == 400
    assert "correct and <mark>clean</mark>" in wrong.text
    assert "did you mean verdict = clean?" in wrong.text


ROWS = (
    {
        "a": 1,
        "b": "xy",
        "c": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}],
    },
    {
        "a": 3,
        "b": None,
        "c": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}],
    },
    {
        "a": 2,
        "b": "xyz",
        "c": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "xy"}],
    },
    {
        "a": None,
        "b": "xyz",
        "c": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}],
    },
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return file


def test_statistics_tell_numbers_from_texts_and_dialogues(table: Path) -> None:
    numbers, texts, dialogues = row_view.view(table, Asked())["columns"]
    assert (numbers["kind"], numbers["low"], numbers["mean"], numbers["high"]) == (
        "number",
        1,
        2,
        3,
    )
    assert (numbers["missing"], sum(numbers["bars"]), numbers["bars"][0], numbers["bars"][-1]) == (
        1,
        3,
        1,
        1,
    )
    assert (texts["kind"], texts["missing"], texts["distinct"], texts["high"]) == ("str", 1, 2, 3)
    assert texts["values"] == [("xyz", 2)]
    assert (dialogues["kind"], dialogues["bars"]) == ("messages", [])


@pytest.mark.parametrize(
    ("asked", "numbers"),
    [
        (Asked(), [0, 1, 2, 3]),
        (Asked(search="XY"), [0, 2, 3]),
        (Asked(column="b", value="xyz"), [2, 3]),
        (Asked(column="b", value="null"), [1]),
        (Asked(column="b", value="xyz", search="Yo"), [3]),
        (Asked(sort="a"), [0, 2, 1, 3]),
        (Asked(sort="-a"), [1, 2, 0, 3]),
        (Asked(sort="-b", limit=2), [2, 3]),
        (Asked(number=2), [2]),
        (Asked(number=7), []),
    ],
)
def test_rows_are_chosen_and_ordered(table: Path, asked: Asked, numbers: list[int]) -> None:
    assert [row["number"] for row in row_view.view(table, asked)["rows"]] == numbers


def test_a_cell_of_a_dialogue_is_its_last_message(table: Path) -> None:
    [row] = row_view.view(table, Asked(number=0))["rows"]
    assert row["cells"] == {"a": "1", "b": "xy", "c": "(1 before) assistant: Yo"}
    assert row["whole"]["values"] == {"a": "1", "b": "xy"}
    assert row["whole"]["messages"] == {"c": [("user", "Hi"), ("assistant", "Yo")]}


def test_what_a_file_does_not_have_is_refused(table: Path, tmp_path: Path) -> None:
    for asked in (Asked(sort="-d"), Asked(column="d", value="1")):
        with pytest.raises(ValueError, match="column: expected one of a, b, c, got 'd'"):
            row_view.view(table, asked)
    with pytest.raises(ValueError, match=r"expected \.parquet or \.jsonl"):
        row_view.view(tmp_path / "rows.txt", Asked())


def test_a_row_leads_to_its_evaluation(made: tuple[FlaskClient, str, Path]) -> None:
    """In every split: files of a split follow each other in the lineage."""
    site, path, folder = made
    for file in sorted((folder / "data").glob("*.parquet")):
        name = file.relative_to(folder).as_posix()
        rows = pq.read_table(file).to_pylist()
        for number, row in enumerate(rows):
            whole = site.get(f"{path}/rows/{number}?file={name}").text
            assert f'href="/evaluations/{row["evaluation_id"]}"' in whole
            assert f">Row {number}</h1>" in whole
        assert site.get(f"{path}/rows/{len(rows)}?file={name}").status_code == 404
        listed = site.get(f"{path}/rows?file={name}&columns=speedup&sort=-speedup").text
        assert 'aria-sort="descending"' in listed
        assert listed.count("/evaluations/") == min(len(rows), dataset_rows.ROWS)
    assert site.get(f"{path}/rows?sort=nothing").status_code == 400


def test_a_row_of_an_answer_without_code_leads_to_no_evaluation(
    settings: Settings, database: Database, tmp_path: Path
) -> None:
    with database.begin() as connection:
        [problem_id] = problems.add(connection, [problem(0)])
        told = turn(("ask",), "I cannot.", None)
        trajectories.add(connection, problem_id=problem_id, backend="triton", turns=[told])
    manifest = export.export(database, export.Spec(format="rewards"), tmp_path / "rewards")
    with opened(settings, testing=True) as app:
        for path in ("rows?columns=completion", "rows/0"):
            shown = app.test_client().get(f"/exports/{manifest.export_id}/{path}")
            assert shown.status_code == 200
            assert "I cannot." in shown.text
            assert 'href="/evaluations/' not in shown.text
