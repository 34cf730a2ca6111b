"""A KernelBench checkout in the database: problems, samples as trajectories with
jobs, claims kept as claims.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from app import export, imports
from app.domain.job import JobState
from app.domain.trajectory import Run
from app.imports import BadImportError, Imported
from app.store import tables
from app.store.evaluation import evaluations
from app.store.postgres.database import Database
from app.store.queue import leases
from app.store.trajectory import trajectories
from app.store.trajectory.trajectories import RunConflictError
from tests.integration import dataset_seed

REFERENCE = "class Model: pass\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n# {name}\n"
KERNELS = {
    "level_1_problem_19_sample_0": "import triton\nclass ModelNew: pass\n",
    "level_1_problem_19_sample_1": (
        "from torch.utils.cpp_extension import load_inline\nclass ModelNew: a = 1\n"
    ),
    "level_2_problem_1_sample_0": "import torch\nclass ModelNew: a = 2\n",
}
CLAIMS = {
    "19": [
        {
            "sample_id": 0,
            "compiled": True,
            "correctness": True,
            "metadata": {},
            "runtime": 0.1,
            "runtime_stats": {},
        }
    ]
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    for name in ("level1/19_ReLU", "level1/20_LeakyReLU", "level2/1_Conv"):
        path = root / "KernelBench" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(REFERENCE.format(name=name))
    run = root / "runs" / "my run"
    run.mkdir(parents=True)
    for name, text in KERNELS.items():
        (run / f"{name}_kernel.py").write_text(text)
    (run / "level_1_problem_19_sample_0_prompt.txt").write_text("Make ReLU fast.")
    (run / "eval_results.json").write_text(json.dumps(CLAIMS).replace("0.1", "NaN"))
    (run / "generation_config.yaml").write_text("level: 1\nmodel_name: org/model-x\n")
    return root


def rows(database: Database, table: sa.Table) -> list[Any]:
    with database.begin() as connection:
        return list(
            connection.execute(sa.select(table).order_by(table.c.created_at, *table.primary_key))
        )


def test_everything_is_there_once(database: Database, checkout: Path) -> None:
    seen: list[tuple[int, int]] = []
    first = imports.kernelbench(
        database, checkout, progress=lambda done, total: seen.append((done, total))
    )
    assert first == Imported(problems=3, runs=1, samples=3, new_samples=3)
    assert seen[-1] == (6, 6)
    again = imports.kernelbench(database, checkout)
    assert again == Imported(problems=3, runs=1, samples=3, new_samples=0)
    found = {(row.source_set, row.level, row.name) for row in rows(database, tables.problems)}
    assert found == {
        ("kernelbench", 1, "19_ReLU"),
        ("kernelbench", 1, "20_LeakyReLU"),
        ("kernelbench", 2, "1_Conv"),
    }
    assert {row.backend for row in rows(database, tables.candidates)} == {"triton", "cuda", "torch"}
    assert [row.state for row in rows(database, tables.jobs)] == [JobState.QUEUED] * 3
    assert {row.label for row in rows(database, tables.trajectories)} == set(KERNELS)


def test_claims_stay_claims(database: Database, checkout: Path) -> None:
    imports.kernelbench(database, checkout)
    [run] = rows(database, tables.runs)
    assert (run.name, run.model) == ("my run", "org/model-x")
    assert run.settings["eval_results"]["19"][0]["correctness"] is True
    assert run.settings["eval_results"]["19"][0]["runtime"] is None  # NaN
    assert rows(database, tables.evaluations) == []


def test_what_was_added_since_is_imported_alone(database: Database, checkout: Path) -> None:
    imports.kernelbench(database, checkout)
    (checkout / "runs/my run/level_1_problem_20_sample_0_kernel.py").write_text(
        "class ModelNew: a = 3\n"
    )
    (checkout / "runs/my run/eval_results.json").write_text(json.dumps(CLAIMS | {"20": []}))
    assert imports.kernelbench(database, checkout).new_samples == 1
    [run] = rows(database, tables.runs)
    assert set(run.settings["eval_results"]) == {"19", "20"}


def test_a_folder_of_levels_without_runs(database: Database, checkout: Path) -> None:
    found = imports.kernelbench(database, checkout / "KernelBench")
    assert found == Imported(problems=3, runs=0, samples=0, new_samples=0)


def test_an_existing_run_that_was_not_imported_is_left_alone(
    database: Database, checkout: Path
) -> None:
    with database.begin() as connection:
        trajectories.add_run(connection, Run(name="my run"))
    with pytest.raises(RunConflictError, match="my run"):
        imports.kernelbench(database, checkout)
    assert rows(database, tables.trajectories) == []


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("eval_results.json", "{", "expected JSON"),
        ("eval_results.json", "[1]", "expected an object of problem number → results"),
        ("level_3_problem_1_sample_0_kernel.py", "", "there is no problem 1 of level 3"),
        (
            "level_1_problem_19_sample_x_kernel.py",
            "",
            "expected level_<L>_problem_<P>_sample_<S>_kernel.py",
        ),
        (
            "level_1_problem_19_sample_7_kernel.py",
            "#" * (17 << 20),
            "candidate: expected at most 16777216 bytes",
        ),
        ("../../KernelBench/level1/21_Bad.py", "def (", "expected Python source"),
    ],
    ids=["no JSON", "no object", "no such problem", "no such name", "too long", "bad problem"],
)
def test_a_bad_file_is_listed_and_the_rest_is_stored(
    database: Database, checkout: Path, name: str, text: str, message: str
) -> None:
    path = checkout / "runs/my run" / name
    path.write_text(text)
    found = imports.kernelbench(database, checkout)
    [bad] = found.bad
    assert path.name in bad
    assert f": {message}" in bad
    assert (found.samples, found.new_samples) == (3, 3)
    assert {row.label for row in rows(database, tables.trajectories)} == set(KERNELS)


def test_a_run_of_bad_files_alone_is_an_error(database: Database, checkout: Path) -> None:
    for path in (checkout / "runs/my run").glob("*_kernel.py"):
        path.unlink()
    (checkout / "runs/my run/level_3_problem_1_sample_0_kernel.py").write_text("")
    with pytest.raises(BadImportError, match="there is no problem 1 of level 3"):
        imports.kernelbench(database, checkout)


def test_imported_samples_are_evaluated_and_exported_like_any_other(
    database: Database, checkout: Path, tmp_path: Path
) -> None:
    imports.kernelbench(database, checkout)
    for job in rows(database, tables.jobs):
        with database.begin() as connection:
            lease = leases.claim(connection, job.job_id, "test", 60.0)
            assert lease is not None
            evaluation, label = dataset_seed.KINDS["fast"]
            evaluations.add(
                connection,
                lease,
                worker="w",
                evaluation=evaluation,
                verdict=dataset_seed.verdict(label),
            )
    spec = export.Spec(where="source_set = kernelbench", val_fraction=0)
    export.export(database, spec, tmp_path / "set")
    assert export.verify(tmp_path / "set") == []
    rows_out = pq.ParquetFile(tmp_path / "set/data/train-00000.parquet").read().to_pylist()
    assert {(row["problem"], row["run"]) for row in rows_out} == {
        ("19_ReLU", "my run"),
        ("1_Conv", "my run"),
    }
    assert sorted(row["prompt_source"] for row in rows_out) == [
        "recorded",
        "template@2",
        "template@2",
    ]
    [recorded] = [row for row in rows_out if row["prompt_source"] == "recorded"]
    assert recorded["prompt"][0]["content"] == "Make ReLU fast."
    assert "must not be evaluated on KernelBench" in (tmp_path / "set/README.md").read_text()
