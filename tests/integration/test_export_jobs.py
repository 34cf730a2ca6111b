"""Datasets made in processes of their own: progress, cancelling, refusals that leave
nothing behind.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from app import export as exporting
from app.domain.filter_tokens import WhereError
from app.domain.source.near_duplicates import Similarity
from app.export import ExportError, Spec, background, verify
from app.plugins import UnknownPluginError
from app.settings import Settings
from app.store import tables
from app.store.dataset import export_jobs, exports, listing
from app.store.postgres.database import Database
from tests.integration import dataset_seed
from tests.integration.cli import assay
from tests.integration.exported import make, nothing_left


def test_progress_reaches_the_number_of_attempts(filled: Database, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    exporting.export(filled, Spec(), tmp_path / "set", progress=lambda *call: seen.append(call))
    assert ("selecting", dataset_seed.ATTEMPTS, dataset_seed.ATTEMPTS) in seen


def test_an_empty_result_names_the_stage_and_leaves_nothing(own: Database, tmp_path: Path) -> None:
    with pytest.raises(
        ExportError, match=r"stage 'where' \(speedup > 1000\.0\): 54 rows came in, none left"
    ):
        make(own, tmp_path / "set", "speedup > 1000")
    assert nothing_left(tmp_path)
    assert dataset_seed.count(own, tables.exports) == 0


def test_a_manifest_is_a_selection(own: Database, settings: Settings, tmp_path: Path) -> None:
    made = make(own, tmp_path / "set", "turn = 0")
    again = assay(
        settings,
        "export",
        "--spec",
        str(tmp_path / "set/manifest.json"),
        "--out",
        str(tmp_path / "again"),
    )
    assert again.exit_code == 0, again.output
    repeated = json.loads((tmp_path / "again/manifest.json").read_text())
    assert (repeated["spec"], repeated["content_sha256"]) == (made["spec"], made["content_sha256"])
    (tmp_path / "list.json").write_text("[]")
    refused = assay(
        settings, "export", "--spec", str(tmp_path / "list.json"), "--out", str(tmp_path / "none")
    )
    expected = "spec: expected a selection or a manifest as a JSON object, got []\n"
    assert (refused.exit_code, refused.stderr) == (
        2,
        f"error: {tmp_path / 'list.json'}: {expected}",
    )


def test_an_empty_database_says_so(database: Database, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="no evaluation is stored"):
        make(database, tmp_path / "set")
    assert nothing_left(tmp_path)


def test_bad_filters_formats_and_fractions_leave_nothing(filled: Database, tmp_path: Path) -> None:
    with pytest.raises(WhereError, match="did you mean verdict"):
        make(filled, tmp_path / "set", "verdit = clean")
    with pytest.raises(UnknownPluginError, match=r"expected one of .*trl_sft"):
        make(filled, tmp_path / "set", layout="trl")
    with pytest.raises(ValueError, match="val_fraction"):
        make(filled, tmp_path / "set", val_fraction=1.0)
    assert nothing_left(tmp_path)


def test_an_existing_dataset_is_never_written_over(filled: Database, tmp_path: Path) -> None:
    make(filled, tmp_path / "set")
    with pytest.raises(ExportError, match="never written over"):
        make(filled, tmp_path / "set")
    (tmp_path / "empty").mkdir()
    make(filled, tmp_path / "empty")


def test_where_recording_fails_no_folder_appears(
    filled: Database, tmp_path: Path, monkeypatch: Any
) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr(exports, "add", refuse)
    with pytest.raises(RuntimeError, match="no room"):
        make(filled, tmp_path / "set")
    assert nothing_left(tmp_path)


def job_at_its_end(database: Database, export_job_id: Any) -> Any:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        job = background.progress(database, export_job_id)
        assert job is not None
        if job.state not in ("queued", "running"):
            return job
        time.sleep(0.1)
    raise TimeoutError(job)


def test_a_job_makes_the_dataset_in_a_process_of_its_own(own: Database, tmp_path: Path) -> None:
    job = job_at_its_end(own, background.start(own, Spec(similarity=Similarity.RAW), tmp_path))
    assert (job.state, job.error) == ("finished", None)
    assert verify(Path(job.directory)) == []
    with own.begin() as connection:
        assert listing.datasets(connection)[0].export_id == job.export_id


def test_so_many_jobs_at_a_time_and_one_that_never_began_is_taken_up(
    own: Database, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(background, "_spawn", lambda *_: None)
    first, second = (
        background.start(own, Spec(similarity=Similarity.RAW), tmp_path)
        for _ in range(background.MAKING)
    )
    with pytest.raises(background.BusyError, match="2 datasets are being made already"):
        background.start(own, Spec(), tmp_path)
    created = tables.export_jobs.c.created_at
    earlier = created - sa.func.make_interval(0, 0, 0, 0, 0, 0, export_jobs.SILENT_S)
    with own.begin() as connection:
        connection.execute(sa.update(tables.export_jobs).values(created_at=earlier))
    lost = background.progress(own, first)
    assert lost is not None
    assert lost.state == "interrupted"
    background.run(own, first)
    assert job_at_its_end(own, first).state == "finished"
    assert background.cancel(own, second)
    assert job_at_its_end(own, second).state == "cancelled"


def test_a_job_that_cannot_be_done_says_why_and_leaves_nothing(
    own: Database, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(background, "_spawn", lambda *_: None)
    export_job_id = background.start(own, Spec(where="speedup > 1000"), tmp_path)
    with pytest.raises(ExportError):
        background.run(own, export_job_id)
    job = job_at_its_end(own, export_job_id)
    assert job.state == "failed"
    assert "stage 'where'" in job.error
    assert nothing_left(tmp_path)


def test_a_job_that_is_cancelled_while_it_runs_leaves_nothing(
    own: Database, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(background, "_spawn", lambda *_: None)
    export_job_id = background.start(own, Spec(), tmp_path)
    report = export_jobs.report
    monkeypatch.setattr(
        export_jobs,
        "report",
        lambda *said: bool(background.cancel(own, export_job_id)) or report(*said),
    )
    background.run(own, export_job_id)
    assert job_at_its_end(own, export_job_id).state == "cancelled"
    assert nothing_left(tmp_path)
    assert not background.cancel(own, export_job_id)
