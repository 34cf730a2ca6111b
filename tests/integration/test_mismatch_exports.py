"""Mismatch rejection in datasets: answers dropped or masked by stored log
probabilities against a trainer's.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from click.testing import CliRunner, Result

from app import export as exporting
from app.cli import main
from app.domain.collection.call import ModelAnswer, ModelRequest
from app.domain.credit.declared import Declared
from app.domain.trajectory import Run
from app.embedded import Services
from app.export import mismatch_rejection, turn_credits, verify
from app.settings import Settings
from app.store import tables
from app.store.postgres.database import Database
from app.store.trajectory import problems, trajectories
from tests.integration import dataset_seed
from tests.integration.collecting import opened, said, specification

PROMPT, ANSWER = (1, 2), (3, 4, 5)
ROLLOUT = (-0.5, -0.25, -1.0)
RIGHT = "```python\n# passes {0}\nimport triton\nclass ModelNew: pass\n```"
CHOSEN = ("--similarity", "none", "--context", "wrong", "--val-fraction", "0")


@pytest.fixture(scope="module")
def settings(services: Services) -> Iterator[Settings]:
    """A collection `c` of two samples of two turns, each right, with the log
    probabilities ROLLOUT.
    """
    answers = iter(map(RIGHT.format, range(4)))

    def model(request: ModelRequest) -> ModelAnswer:
        turn = sum(one.role == "assistant" for one in request.messages)
        prompt = PROMPT if turn == 0 else (*PROMPT, *ANSWER, 6)
        return said(
            next(answers),
            prompt_token_ids=prompt,
            token_ids=ANSWER,
            logprobs=ROLLOUT,
            logprobs_mode="processed",
        )

    with opened(services, model) as (site, settings):
        site.start(
            specification(name="c", strategy={"name": "sequential", "samples": 2, "turns": 2})
        )
        site.run()
        yield settings


def assay(settings: Settings, *arguments: object) -> Result:
    return CliRunner(env=settings.to_env()).invoke(main, [str(one) for one in arguments])


def lines(settings: Settings, folder: Path) -> list[dict[str, Any]]:
    """Token rows of the two rollouts, by sample, with their trajectories."""
    file = folder / "tokens.jsonl"
    ran = assay(settings, "collect", "tokens", "c", "--out", file)
    assert ran.exit_code == 0, ran.output
    turns = json.loads(assay(settings, "advantages", "--run", "c", "--json").stdout)["turns"]
    of = {one["turn_id"]: one["trajectory_id"] for one in turns}
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    return sorted(
        (row | {"trajectory_id": of[row["turn_ids"][0]]} for row in rows),
        key=lambda row: row["sample"],
    )


def scored(settings: Settings, folder: Path, *shifts: tuple[float, float]) -> Path:
    """The trainer's file: of each sample's two turns, the difference to the rollout
    engine on the first token.
    """
    file = folder / "trainer.jsonl"
    with file.open("w") as written:
        for row, of_turns in zip(lines(settings, folder), shifts, strict=True):
            for call, shift in zip(row["model_call_ids"], of_turns, strict=True):
                logprobs = [ROLLOUT[0] + shift, *ROLLOUT[1:]]
                written.write(json.dumps({"model_call_id": call, "logprobs": logprobs}) + "\n")
    return file


def made(
    settings: Settings, out: Path, *arguments: object
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Rows and manifest of a dataset."""
    shutil.rmtree(out, ignore_errors=True)
    ran = assay(settings, "export", "--out", out, *CHOSEN, *arguments)
    assert ran.exit_code == 0, ran.output
    assert verify(out) == []
    manifest = json.loads((out / "manifest.json").read_bytes())
    rows = [
        row
        for file in sorted(out.glob("data/*.parquet"))
        for row in pq.ParquetFile(file).read().to_pylist()
    ]
    return rows, manifest


def test_answers_beyond_the_bounds_are_no_rows(settings: Settings, tmp_path: Path) -> None:
    first, second = lines(settings, tmp_path)
    file = scored(settings, tmp_path, (0.0, 0.0), (0.0, -0.05))
    out = tmp_path / "sft"
    assert len(made(settings, out)[0]) == 4
    rows, manifest = made(
        settings, out, "--mrs", file
    )  # geometric, a ratio a trajectory: both of its turns leave
    assert {row["trajectory_id"] for row in rows} == {first["trajectory_id"]}
    assert len(rows) == 2
    counts = {stage["stage"]: stage["rows"] for stage in manifest["funnel"]}
    assert (counts["benchmarks"], counts["mrs"], counts["context"]) == (4, 2, 2)
    told = manifest["mismatch"]
    assert (told["level"], told["lower"], told["upper"], told["veto"]) == (
        "geometric",
        0.999,
        1.001,
        1e-4,
    )
    assert (told["turns"], told["modes"]) == ({"kept": 2, "mismatch": 2}, {"processed": 4})
    card = (out / "README.md").read_text()
    assert "level `geometric`, kept in [0.999, 1.001]" in card
    assert "| trainer and rollout engine disagree beyond the bounds | 2 |" in card
    [gone] = [line for line in decisions(out) if line["turn_id"] == second["turn_ids"][0]]
    assert gone["stage"] == "mrs"
    assert gone["detail"].startswith("mismatch: train/rollout 0.9917")
    why = assay(settings, "verify", out, "--why", gone["evaluation_id"])
    assert "mrs" in why.output

    rows, _ = made(settings, out, "--mrs", file, "--mrs-level", "turn_geo")  # a ratio a turn
    assert {row["evaluation_id"] for row in rows} == {
        line["evaluation_id"] for line in decisions(out) if line["turn_id"] != second["turn_ids"][1]
    }
    assert len(rows) == 3
    rows, _ = made(
        settings, out, "--mrs", file, "--mrs-level", "turn_geo", "--mrs-bounds", 0.9, 1.1
    )
    assert len(rows) == 4
    rows, manifest = made(
        settings, out, "--mrs", file, "--mrs-bounds", 0.9, 1.1, "--mrs-veto", 0.99
    )
    assert len(rows) == 3
    assert manifest["mismatch"]["turns"] == {"kept": 3, "veto": 1}


def decisions(out: Path) -> list[dict[str, Any]]:
    return [
        line for file in out.glob("decisions-*.parquet") for line in pq.read_table(file).to_pylist()
    ]


def test_a_marked_dialogue_shows_what_it_does_not_learn(settings: Settings, tmp_path: Path) -> None:
    file = scored(settings, tmp_path, (0.0, 0.0), (-0.05, 0.0))
    options = (
        "--format",
        "trl_sft_masked",
        "--turns",
        "all",
        "--mrs",
        file,
        "--mrs-level",
        "turn_geo",
    )
    rows, _ = made(settings, tmp_path / "sft", *options)
    marks = [
        [message["train"] for message in row["dialogue"] if message["role"] == "assistant"]
        for row in rows
    ]
    assert sorted(marks) == [[False, True], [True, True]]


def test_advantages_mask_instead_of_dropping(settings: Settings, tmp_path: Path) -> None:
    file = scored(settings, tmp_path, (0.0, 0.0), (0.0, -0.05))
    _, second = lines(settings, tmp_path)
    options = (
        "--advantages-mrs",
        file,
        "--advantages-mrs-level",
        "turn_geo",
        "--advantages-keep-uniform",
    )
    rewards = ("--format", "rewards", "--where", "run = c", "--val-fraction", "0")
    out = tmp_path / "rl"
    ran = assay(
        settings,
        "export",
        "--out",
        out,
        *rewards,
        "--advantages",
        "trloo",
        "--advantages-run",
        "c",
        *options,
    )
    assert ran.exit_code == 0, ran.output
    found = [
        row
        for file in out.glob("data/*.parquet")
        for row in pq.ParquetFile(file).read().to_pylist()
    ]
    masked = [row for row in found if not row["advantage_mask"]]
    assert [(row["trajectory_id"], row["turn"], row["left_out"]) for row in masked] == [
        (second["trajectory_id"], 1, "mismatch")
    ]
    assert all(row["advantage"] is not None for row in found)  # rejected rows stay in the baseline
    assert json.loads((out / "manifest.json").read_bytes())["advantages"]["mismatch"]["sha256"]

    rows = tmp_path / "rows.jsonl"
    ran = assay(
        settings, "collect", "tokens", "c", "--out", rows, "--advantages", "trloo", *options
    )
    assert ran.exit_code == 0, ran.output
    of_tokens = [json.loads(line) for line in rows.read_text().splitlines()]
    kept = {row["sample"]: [row["loss_mask"][end] for end in row["turn_ends"]] for row in of_tokens}
    assert kept[second["sample"]] == [1, 0]
    assert sum(map(sum, kept.values())) == 3


def test_missing_log_probabilities_are_named(settings: Settings, tmp_path: Path) -> None:
    file = scored(settings, tmp_path, (0.0, 0.0), (0.0, 0.0))
    _, second = lines(settings, tmp_path)
    whole = file.read_text().splitlines(keepends=True)
    file.write_text("".join(whole[:3]))
    ran = assay(settings, "export", "--out", tmp_path / "sft", *CHOSEN, "--mrs", file)
    assert ran.exit_code == 2
    said = " ".join(ran.output.split())
    assert "for all 4 turns, got them for 2" in said
    assert f"1 are not in {file}: trajectory {second['trajectory_id']} turn 1" in said
    assert "1 have turns beside them in their trajectory or sample that lack either" in said
    assert not (tmp_path / "sft").exists()
    rows, manifest = made(settings, tmp_path / "sft", "--mrs", file, "--mrs-partial")
    assert len(rows) == 4
    assert manifest["mismatch"]["turns"] == {"kept": 3, "no ratio": 1}
    advantages = assay(settings, "advantages", "--run", "c", "--mrs", file)
    assert f"1 are not in {file}" in " ".join(advantages.output.split())
    for given, expected in (
        (("--mrs-level", "turn"), "--mrs-…: expected --mrs FILE with it, got none"),
        (("--advantages-mrs", file), "--advantages-mrs: expected --advantages METHOD with it"),
        (
            ("--mrs", file, "--format", "rewards", "--similarity", "minhash"),
            "mrs = MismatchRejection",
        ),
        (("--mrs", file, "--mrs-bounds", 2, 1), "expected 0 < lower <= 1 <= upper"),
    ):
        ran = assay(settings, "export", "--out", tmp_path / "no", "--dry-run", *given)
        assert (ran.exit_code, expected in " ".join(ran.output.split())) == (2, True), ran.output


def test_the_manifest_holds_the_files_hash(settings: Settings, tmp_path: Path) -> None:
    file = scored(settings, tmp_path, (0.0, 0.0), (0.0, -0.05))
    _, manifest = made(settings, tmp_path / "sft", "--mrs", file)
    assert settings.database_url is not None
    database = Database(settings.database_url)
    assert exporting.reproduce(database, manifest, tmp_path / "again")[1] == []
    file.write_text(file.read_text() + "\n")
    with pytest.raises(ValueError, match="expected the file of sha256"):
        exporting.reproduce(database, manifest, tmp_path / "changed")
    file.unlink()
    with pytest.raises(
        ValueError, match="expected a file with the trainer's log probabilities: No such file"
    ):
        exporting.reproduce(database, manifest, tmp_path / "gone")
    database.dispose()


def test_candidates_that_were_not_collected_have_no_ratio(
    settings: Settings, tmp_path: Path
) -> None:
    file = scored(settings, tmp_path, (0.0, 0.0), (0.0, 0.0))
    assert settings.database_url is not None
    database = Database(settings.database_url)
    with database.begin() as connection:
        dataset_seed.evaluate(
            connection, dataset_seed.problem(3), dataset_seed.code("alone").encode(), "fast"
        )
        stored = dataset_seed.evaluate(
            connection, dataset_seed.problem(3), dataset_seed.code("told").encode(), "fast"
        )
        run_id = trajectories.add_run(connection, Run(name="other", model="org/m"))
        turn = dataset_seed.turn(("go",), f"```python\n{dataset_seed.code('told')}```", stored)
        [problem_id] = problems.add(connection, [dataset_seed.problem(3)])
        trajectories.add(
            connection, problem_id=problem_id, backend="triton", turns=[turn], run_id=run_id
        )
    database.dispose()
    ran = assay(
        settings, "export", "--out", tmp_path / "sft", *CHOSEN, "--device", "all", "--mrs", file
    )
    assert ran.exit_code == 2
    said = " ".join(ran.output.split())
    assert "1 came without a turn" in said
    assert "1 have no stored log probabilities of the rollout engine" in said


def test_advantages_compare_every_turn_that_they_see(settings: Settings, tmp_path: Path) -> None:
    """Also a turn that is younger than another transaction, by which a dataset would begin."""
    file = scored(settings, tmp_path, (0.0, 0.0), (0.0, 0.0))
    declared = Declared(reward="dr_kernel", runs=("c",), mismatch=mismatch_rejection.declare(file))
    database = Database(settings.database_url or "")
    with database.engine.connect() as connection:
        connection.execute(sa.update(tables.turns).values(created_at=sa.func.now()))
        book = turn_credits.book(connection, declared)
        connection.rollback()
    database.dispose()
    assert book.summary()["turns"] == 4
