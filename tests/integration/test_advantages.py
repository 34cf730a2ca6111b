"""`assay advantages` over stored trajectories: numbers that count as rewards,
missing ones, mixtures.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import Result

from app import export as export_module
from app.domain import reward
from app.domain.trajectory import Run
from app.domain.verdict import Label
from app.settings import Settings
from app.store.evaluation import evaluations
from app.store.postgres.database import Database
from app.store.trajectory import trajectories
from tests.integration import dataset_seed, tiny_trainer
from tests.integration.cli import assay

SLOW = 1 + 0.8 + 0.9
FAST = 1 + 2.0 + 0.9
"""`dr_kernel_pr` of the seed's kinds: C + speedup + coverage."""


def store(
    database: Database, run: str, dialogues: Sequence[Sequence[str | None]], device: str = "cpu"
) -> None:
    """One trajectory per dialogue on problem 0; turns are kinds of
    dataset_seed.KINDS, None: an answer without code.
    """
    with database.begin() as connection:
        run_id = trajectories.add_run(connection, Run(name=run, model="org/model"))
        problem = dataset_seed.evaluate(
            connection, dataset_seed.problem(0), f"{run} {device}".encode()
        ).problem_id
        for number, kinds in enumerate(dialogues):
            turns = []
            for at, kind in enumerate(kinds):
                source = dataset_seed.code(f"{run} {device} {number} {at}").encode()
                stored = kind and dataset_seed.evaluate(
                    connection, dataset_seed.problem(0), source, kind, device=device
                )
                turns.append(dataset_seed.turn(("prompt",), "answer", stored or None))
            trajectories.add(
                connection, problem_id=problem, backend="triton", turns=turns, run_id=run_id
            )


def advantages(settings: Settings, *arguments: str) -> Result:
    return assay(settings, "advantages", *arguments)


def turns_of(
    settings: Settings, *arguments: str
) -> list[tuple[float | None, float | None, str | None]]:
    ran = advantages(settings, "--json", *arguments)
    assert ran.exit_code == 0, ran.output
    return [
        (one["reward"], one["advantage"], one["dropped"]) for one in json.loads(ran.stdout)["turns"]
    ]


def test_trloo_of_a_run(settings: Settings, database: Database) -> None:
    store(database, "run", [("incorrect", "slow"), ("fast",), ("invalid",), (None,), ("hack",)])
    store(database, "other", [("fast",), ("slow",)])
    near = pytest.approx
    assert turns_of(settings, "--run", "run") == [
        (0.0, near(SLOW - FAST / 3), None),
        (near(SLOW), near(SLOW), None),  # alone in its turn: its return
        (near(FAST), near(FAST - SLOW / 3), None),
        (None, None, "missing"),  # invalid says nothing of the candidate
        (0.0, near(-(SLOW + FAST) / 3), None),  # no code: the model's own failure
        (0.0, near(-(SLOW + FAST) / 3), None),  # a hack
    ]
    assert len(turns_of(settings)) == 8


def test_tables_and_options(settings: Settings, database: Database) -> None:
    store(database, "run", [("fast", "incorrect"), ("slow",), ("invalid",)])
    summary = advantages(settings, "--run", "run").stdout
    assert "1 missing, 1 void" in " ".join(summary.split())
    rows = advantages(settings, "--run", "run", "--turns").stdout.splitlines()
    assert len(rows) == 1 + 4
    assert turns_of(settings, "--keep-void", "--gamma", "0", "--alone", "zero")[1] == (
        0.0,
        0.0,
        None,
    )
    assert turns_of(settings, "--reward", "dr_kernel")[0][0] == pytest.approx(3.0)
    assert reward.DEFAULT == "dr_kernel_pr"


def test_tables_in_a_pipe_are_whole(settings: Settings, database: Database) -> None:
    store(
        database, "a run whose name is long enough to fill half of a line", [("slow",), ("fast",)]
    )
    turns = json.loads(advantages(settings, "--json").stdout)["turns"]
    listed = advantages(settings, "--turns").stdout
    assert [one["trajectory_id"] for one in turns if one["trajectory_id"] not in listed] == []
    assert turns[0]["run"] in advantages(settings).stdout


def test_files_join_by_evaluation(settings: Settings, database: Database, tmp_path: Path) -> None:
    store(database, "run", [("fast", None), ("slow",)])
    listed = json.loads(
        advantages(settings, "--json", "--out", str(tmp_path / "a.parquet")).stdout
    )["turns"]
    assert pq.read_table(tmp_path / "a.parquet").to_pylist() == listed
    assert advantages(settings, "--out", str(tmp_path / "new" / "a.jsonl")).exit_code == 0
    assert [each.name for each in (tmp_path / "new").iterdir()] == ["a.jsonl"]
    assert [
        json.loads(line) for line in (tmp_path / "new" / "a.jsonl").read_text().splitlines()
    ] == listed
    assert [one["evaluation_id"] is None for one in listed] == [False, True, False]
    refused = advantages(settings, "--out", str(tmp_path / "a.csv"))
    assert (refused.exit_code, "ending in .parquet or .jsonl, got" in refused.output) == (2, True)


def test_columns_of_a_dataset(settings: Settings, database: Database, tmp_path: Path) -> None:
    store(database, "run", [("fast", "incorrect"), ("slow",)])
    exported = assay(
        settings,
        "export",
        "--out",
        str(tmp_path / "set"),
        "--format",
        "rewards",
        "--where",
        "run = run",
    )
    assert exported.exit_code == 0, exported.output
    columns = tmp_path / "columns.parquet"
    ran = advantages(settings, "--out", str(columns), "--dataset", str(tmp_path / "set"))
    assert ran.exit_code == 0, ran.output
    lineage = [
        line
        for path in sorted((tmp_path / "set").glob("lineage-*"))
        for line in pq.read_table(path).to_pylist()
    ]
    found = pq.read_table(columns).to_pylist()
    assert [(one["split"], one["index"], one["turn_id"]) for one in found] == [
        (one["split"], one["index"], one["turn_id"]) for one in lineage
    ]
    listed = {
        one["turn_id"]: one["advantage"]
        for one in json.loads(advantages(settings, "--json").stdout)["turns"]
    }
    assert [one["advantage"] for one in found] == [listed.get(one["turn_id"]) for one in lineage]
    assert any(one["advantage"] for one in found)
    assert advantages(settings, "--dataset", str(tmp_path / "set")).exit_code == 2
    refused = advantages(settings, "--out", str(columns), "--dataset", str(tmp_path))
    assert "expected a lineage that names turns of these runs, got none" in refused.output


def export(settings: Settings, folder: Path, *arguments: str) -> Result:
    command = [
        "export",
        "--out",
        str(folder),
        "--where",
        "run = run",
        "--val-fraction",
        "0",
        *arguments,
    ]
    return assay(settings, *command)


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """Rows of a dataset, each with the turn of its lineage."""
    rows = pq.read_table(folder / "data").to_pylist()
    lineage = [
        one
        for one in pq.read_table(folder / "lineage-00000.parquet").to_pylist()
        if one["role"] == "answer"
    ]
    return [row | {"turn_id": line["turn_id"]} for row, line in zip(rows, lineage, strict=True)]


SHOWN = ("--similarity", "none", "--no-extraction", "--context", "any")
CREDIT = ("--advantages", "grpo_turn", "--advantages-run", "run", "--advantages-gamma", "0.5")
SAME = ("--method", "grpo_turn", "--run", "run", "--gamma", "0.5")


def test_columns_of_an_export_equal_the_table(
    settings: Settings, database: Database, tmp_path: Path
) -> None:
    dialogues = [
        ("incorrect", "slow", "fast"),
        ("fast", "incorrect"),
        ("invalid", "slow"),
        (None, "slow"),
        ("hack",),
    ]
    store(database, "run", dialogues)
    listed = json.loads(advantages(settings, *SAME, "--json").stdout)["turns"]
    by_turn = {one["turn_id"]: one for one in listed}
    ran = export(settings, tmp_path / "set", "--format", "rewards", *CREDIT)
    assert ran.exit_code == 0, ran.output
    found = rows_of(tmp_path / "set")
    assert len(found) == len(listed) - 1  # an invalid evaluation is no row
    for row in found:
        own = by_turn[row["turn_id"]]
        assert row["credit_group"] == f"run/{own['problem_id']}/triton"
        assert (row["turn_reward"], row["turn_score"], row["advantage"], row["left_out"]) == (
            own["reward"],
            own["score"],
            own["advantage"],
            own["dropped"],
        )
        assert row["advantage_mask"] == (own["dropped"] is None)
        of_dialogue = [one for one in listed if one["trajectory_id"] == own["trajectory_id"]][
            : own["turn"] + 1
        ]
        for column, name in (
            ("turn_rewards", "reward"),
            ("turn_scores", "score"),
            ("turn_advantages", "advantage"),
        ):
            assert row[column] == [one[name] for one in of_dialogue]
        assert row["turn_masks"] == [one["dropped"] is None for one in of_dialogue]
    assert {"void", None} == {row["left_out"] for row in found}
    card = " ".join((tmp_path / "set/README.md").read_text().split())
    for told in (
        "method `grpo_turn`",
        "discount between turns 0.5",
        "rows of one prompt and turn",
        "| missing | 1 |",
    ):
        assert told in card
    assert export_module.verify(tmp_path / "set") == []


def test_an_export_with_advantages_is_made_again_after_a_verdict_changed(
    settings: Settings, database: Database, tmp_path: Path
) -> None:
    store(database, "run", [("slow", "fast"), ("fast",), ("incorrect",)])
    assert export(settings, tmp_path / "set", *SHOWN, *CREDIT).exit_code == 0
    before = rows_of(tmp_path / "set")
    assert any(row["advantage"] for row in before)
    with database.begin() as connection:
        changed = next(row["evaluation_id"] for row in before)
        evaluations.add_verdict(connection, changed, dataset_seed.verdict(Label.HACK))
    manifest = json.loads((tmp_path / "set/manifest.json").read_text())
    _, differences = export_module.reproduce(database, manifest, tmp_path / "again")
    assert differences == []
    assert rows_of(tmp_path / "again") == before


def test_layouts_without_room_for_advantages_are_refused(
    settings: Settings, database: Database, tmp_path: Path
) -> None:
    store(database, "run", [("fast",), ("slow",)])
    for arguments, expected in (
        (("--format", "axolotl", *CREDIT), "expected a format of Parquet columns, got axolotl"),
        (
            ("--format", "verl_rl", *CREDIT),
            "expected no setting that does not apply to such rows, got advantages",
        ),
        (("--advantages", "gropo"), "unknown method 'gropo'; expected one of trloo"),
        (("--advantages", "trloo", "--advantages-run", "nun"), "no run is named nun"),
        (("--advantages-gamma", "0.5"), "--advantages-gamma: expected --advantages METHOD with it"),
    ):
        ran = export(settings, tmp_path / "set", *arguments)
        assert ran.exit_code == 2, ran.output
        assert expected in " ".join(ran.output.split())
    assert not (tmp_path / "set").exists()


@pytest.mark.filterwarnings("ignore")  # warnings of other packages
def test_trainers_read_the_columns(settings: Settings, database: Database, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    store(database, "run", [("slow", "fast"), ("fast",), ("incorrect", "slow")])
    ran = export(settings, tmp_path / "set", "--format", "trl_sft", *SHOWN, *CREDIT)
    assert ran.exit_code == 0, ran.output
    loaded = datasets.load_dataset(str(tmp_path / "set"), cache_dir=str(tmp_path / "cache"))[
        "train"
    ]
    assert "null" not in str(loaded.features)
    assert list(loaded) == pq.read_table(tmp_path / "set/data").to_pylist()
    trl = pytest.importorskip("trl", minversion="1.0")
    options = {
        "output_dir": str(tmp_path),
        "max_steps": 1,
        "use_cpu": True,
        "bf16": False,
        "report_to": [],
    }
    trainer = trl.SFTTrainer(
        tiny_trainer.model(),
        args=trl.SFTConfig(**options, logging_steps=1, per_device_train_batch_size=2),
        train_dataset=loaded,
        processing_class=tiny_trainer.tokenizer(),
    )
    trainer.train()
    assert "loss" in trainer.state.log_history[0]


def test_bad_input_is_named(settings: Settings, database: Database) -> None:
    store(database, "run", [("fast",), ("slow",)])
    for arguments, expected in (
        (("--run", "nun"), "no run is named nun"),
        (("--method", "gropo"), "unknown method 'gropo'; expected one of trloo"),
        (("--reward", "speed"), "unknown reward 'speed'; expected one of dr_kernel"),
    ):
        ran = advantages(settings, *arguments)
        assert ran.exit_code == 2
        assert expected in ran.output


def test_figures_of_two_devices_are_not_compared(settings: Settings, database: Database) -> None:
    store(database, "run", [("fast",), ("slow",)])
    store(database, "run", [("slow",)], device="h200")
    ran = advantages(settings, "--run", "run")
    assert ran.exit_code == 2
    assert "expected one device class, protocol and baseline, got cpu" in ran.output
    assert "h200" in ran.output
