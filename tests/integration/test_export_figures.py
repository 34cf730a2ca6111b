"""Figures and rows that say the same of one store: pass rates, lineage, previews and reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq
import pytest

from app import export
from app.domain import filter_language as filters
from app.domain.trajectory import Run
from app.export import Spec, spec_of, why
from app.store.figures import metric_inputs
from app.store.postgres.database import Database
from app.store.queue import jobs, leases
from app.store.trajectory import imports, trajectories
from tests.integration import dataset_seed, exported
from tests.integration.dataset_seed import code, evaluate, problem

PROMPT = ("Write a kernel in Triton.",)


def dialogue(
    database: Database,
    outcomes: list[str],
    *,
    run: str,
    number: int = 1,
    device: str = "h200",
    backend: str = "triton",
    label: str | None = None,
) -> list[UUID | None]:
    """A stored trajectory with a turn per outcome; `none`: an answer without code,
    `fault`: the job failed.
    """
    found: list[UUID | None] = []
    told = []
    with database.begin() as connection:
        run_id = trajectories.add_run(connection, Run(name=run, model="m"))
        [problem_id] = dataset_seed.problems.add(connection, [problem(number)])
        for place, outcome in enumerate(outcomes):
            name = f"{run}{label or ''}{number}{backend}{place}"
            stored, text = None, f"```python\n{code(name)}```"
            if outcome == "none":
                text = f"I cannot: {name}."
            elif outcome != "fault":
                stored = evaluate(
                    connection, problem(number), code(name).encode(), outcome, backend, device
                )
            turn = dataset_seed.turn(PROMPT, text, stored)
            if outcome == "fault":
                job_id, _ = dataset_seed.queued(
                    connection, problem(number), code(name).encode(), backend, device
                )
                lease = leases.claim(connection, job_id, "test", 60.0)
                assert lease is not None
                assert leases.fail(connection, lease, "test", "as the test wants")
                turn = dataset_seed.replace(turn, job_id=job_id)
                assert jobs.lock(connection, [job_id]) == {job_id: "failed"}
            told.append(turn)
            found.append(stored.evaluation_id if stored else None)
        trajectories.add(
            connection,
            problem_id=problem_id,
            backend=backend,
            turns=told,
            run_id=run_id,
            label=label,
        )
    return found


def rows(database: Database, out: Path, **options: Any) -> list[dict[str, Any]]:
    export.export(database, spec_of({"val_fraction": 0.0} | options), out)
    assert export.verify(out) == []
    return exported.rows_in(out)


def test_every_line_of_a_report_has_a_number_of_its_own(database: Database, tmp_path: Path) -> None:
    for number in range(8):
        dialogue(database, ["fast", "incorrect"], run="r", number=number)
    export.export(database, Spec(format="kernelbench_results", val_fraction=0.5), tmp_path / "kb")
    lines = [
        row
        for path in (tmp_path / "kb").glob("lineage-*.parquet")
        for row in pq.ParquetFile(path).read().to_pylist()
    ]
    assert {row["split"] for row in lines} == {"train"}
    assert [row["index"] for row in lines if row["role"] == "answer"] == list(range(16))
    written = (tmp_path / "kb/data/train.jsonl").read_text().splitlines()
    told = [json.loads(line)["metadata"]["evaluation_id"] for line in written]
    assert told == [row["evaluation_id"] for row in lines if row["role"] == "answer"]


def test_pass_rates_of_problems_are_of_one_language_and_of_valid_evaluations(
    database: Database, tmp_path: Path
) -> None:
    for place, outcome in enumerate(
        ["fast", "slow", "incorrect", "invalid", "fault", "none", "hack", "suspect"]
    ):
        dialogue(database, [outcome, "fast"], run="tried", label=f"t{place}")
    dialogue(database, ["incorrect"], run="tried", backend="cuda", label="c")
    dialogue(database, ["fast"], run="other", label="o")
    asked = {
        "format": "trl_prompts",
        "source": "problems",
        "rate_run": "tried",
        "backends": ["triton", "cuda", "torch"],
    }
    found = rows(database, tmp_path / "problems", **asked)
    assert {row["backend"]: (row["pass_rate"], row["attempts"]) for row in found} == {
        "triton": (2 / 6, 6),
        "cuda": (0.0, 1),
        "torch": (None, 0),
    }
    attempted = rows(database, tmp_path / "attempts", format="trl_prompts", where="run = tried")
    assert {row["backend"]: (row["pass_rate"], row["attempts"]) for row in attempted} == {
        "triton": (2 / 6, 6),
        "cuda": (0.0, 1),
    }


def test_pass_rates_of_problems_are_of_one_device(database: Database, tmp_path: Path) -> None:
    for place in range(3):
        dialogue(database, ["fast"], run="tried", label=f"h{place}")
    dialogue(database, ["incorrect"], run="tried", device="cpu", label="c")
    asked = {"format": "trl_prompts", "source": "problems", "rate_run": "tried"}
    [usual] = rows(database, tmp_path / "usual", **asked)
    assert (usual["pass_rate"], usual["attempts"]) == (1.0, 3)


def test_an_answer_without_code_is_of_the_device_that_its_run_used(
    database: Database, tmp_path: Path
) -> None:
    """A run on a GPU, 1 of 2 right; one on the CPU, 1 of 3 right, two of them without code."""
    dialogue(database, ["fast"], run="gpu", label="a")
    dialogue(database, ["incorrect"], run="gpu", label="b")
    dialogue(database, ["fast"], run="interpreter", device="cpu", label="a")
    dialogue(database, ["none"], run="interpreter", device="cpu", label="b")
    dialogue(database, ["none"], run="interpreter", device="cpu", label="c")
    [gpu] = rows(database, tmp_path / "gpu", format="trl_prompts")
    assert (gpu["pass_rate"], gpu["attempts"]) == (0.5, 2)
    [cpu] = rows(database, tmp_path / "cpu", format="trl_prompts", device="cpu")
    assert (cpu["pass_rate"], cpu["attempts"]) == (pytest.approx(1 / 3), 3)
    assert len(rows(database, tmp_path / "rewards", format="rewards", device="cpu")) == 3
    with database.begin() as connection:
        found = metric_inputs.attempted(connection, filters.parse(""))
    assert sorted(one.device or "" for one in found) == ["cpu"] * 3 + ["h200"] * 2


def test_an_answer_without_code_is_of_the_device_of_its_own_dialogue(
    database: Database, tmp_path: Path
) -> None:
    dialogue(database, ["none", "fast"], run="mixed", label="a")
    for place in range(3):
        dialogue(database, ["fast"], run="mixed", device="cpu", number=4, label=f"c{place}")
    found = rows(database, tmp_path / "rewards", format="rewards")
    assert sorted(row["status"] for row in found) == ["no_code", "passed"]
    with database.begin() as connection:
        told = metric_inputs.attempted(connection, filters.parse("level = 2"))
    assert [one.device for one in told if one.label is None] == ["h200"]


def test_a_last_turn_that_failed_leaves_no_final_turn(database: Database, tmp_path: Path) -> None:
    [early, _] = dialogue(database, ["fast", "fault"], run="r", label="a")
    [_, late] = dialogue(database, ["slow", "fast"], run="r", number=2, label="b")
    rows(database, tmp_path / "final", turns="final", similarity="none")
    assert [one["stage"] for one in why(tmp_path / "final", str(early))] == ["turns"]
    assert [one["stage"] for one in why(tmp_path / "final", str(late))] == ["in"]


def test_prompts_are_measured_without_the_answer(database: Database, tmp_path: Path) -> None:
    """A long answer is an attempt like any other: a limit of the prompt's length
    does not change a pass rate.
    """
    dialogue(database, ["fast"], run="r", label="a")
    with database.begin() as connection:
        told = dataset_seed.turn(PROMPT, "no " * 4_000, None)
        [problem_id] = dataset_seed.problems.add(connection, [problem(1)])
        run_id = trajectories.add_run(connection, Run(name="r", model="m"))
        trajectories.add(
            connection,
            problem_id=problem_id,
            backend="triton",
            turns=[told],
            run_id=run_id,
            label="b",
        )
    [row] = rows(database, tmp_path / "long", format="trl_prompts", max_tokens=100)
    assert (row["pass_rate"], row["attempts"]) == (0.5, 2)
    with pytest.raises(export.ExportError, match="stage 'tokens'"):
        rows(database, tmp_path / "short", format="trl_prompts", max_tokens=1)


TOKEN = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5"


@pytest.mark.parametrize("answer", ["", f"export TOKEN={TOKEN}"])
def test_a_prompt_is_a_row_whatever_was_answered(
    database: Database, tmp_path: Path, answer: str
) -> None:
    with database.begin() as connection:
        [problem_id] = dataset_seed.problems.add(connection, [problem(1)])
        told = dataset_seed.turn(PROMPT, answer, None)
        trajectories.add(connection, problem_id=problem_id, backend="triton", turns=[told])
    [row] = rows(database, tmp_path / "rl", format="trl_prompts")
    assert (row["pass_rate"], [one["content"] for one in row["prompt"]]) == (0.0, list(PROMPT))


def test_a_prompt_that_holds_a_secret_is_no_row(database: Database, tmp_path: Path) -> None:
    with database.begin() as connection:
        [problem_id] = dataset_seed.problems.add(connection, [problem(1)])
        told = dataset_seed.turn((f"Use {TOKEN}.",), "No.", None)
        trajectories.add(connection, problem_id=problem_id, backend="triton", turns=[told])
    with pytest.raises(export.ExportError, match="nothing to export"):
        rows(database, tmp_path / "rl", format="trl_prompts")


def test_a_preview_shows_rows_as_the_dataset_has_them(database: Database, tmp_path: Path) -> None:
    with database.begin() as connection:
        [problem_id] = dataset_seed.problems.add(connection, [problem(1)])
        asked = json.dumps([{"role": "user", "content": "As the set asks."}])
        imports.set_sources(connection, {problem_id: (asked, None)})
    options = {"format": "trl_prompts", "source": "problems", "val_fraction": 0.0}
    [row] = rows(database, tmp_path / "rl", **options)
    assert row["prompt"][0]["content"] == "As the set asks."
    assert [one["row"] for one in export.preview(database, spec_of(options)).rows] == [row]


def test_an_answer_that_failed_once_is_labelled_bad_alone(
    database: Database, tmp_path: Path
) -> None:
    """Right on one device, wrong on another one."""
    with database.begin() as connection:
        right = evaluate(connection, problem(1), code("same").encode(), "fast", device="h200")
        wrong = evaluate(connection, problem(1), code("same").encode(), "incorrect", device="h100")
        evaluate(connection, problem(1), code("other").encode(), "fast", device="h200")
    options = {"format": "trl_kto", "device": "all", "similarity": "none"}
    found = {
        row["evaluation_id"]: row["label"] for row in rows(database, tmp_path / "kto", **options)
    }
    assert found[str(wrong.evaluation_id)] is False
    assert str(right.evaluation_id) not in found
    assert sorted(found.values()) == [False, True]
    [decision] = why(tmp_path / "kto", str(right.evaluation_id))
    assert (decision["stage"], decision["detail"]) == (
        "choice",
        "the same answer failed in another evaluation",
    )


@pytest.mark.parametrize("name", ["trl_kto", "trl_preference", "trl_sft"])
def test_a_stage_that_worse_answers_pass_says_so(
    database: Database, tmp_path: Path, name: str
) -> None:
    with database.begin() as connection:
        for place, outcome in enumerate(("fast", "incorrect", "hack")):
            evaluate(connection, problem(1), code(f"{place}").encode(), outcome)
    made = export.export(database, spec_of({"format": name, "similarity": "none"}), tmp_path / name)
    rules = {one.stage: one.rule for one in made.funnel}
    exempt = [stage for stage, rule in rules.items() if rule.endswith("rows are exempt")]
    assert exempt == ([] if name == "trl_sft" else ["correct", "clean"])


@pytest.mark.parametrize("name", ["trl_sft", "trl_sft_masked", "trl_preference", "trl_kto"])
def test_the_card_of_a_set_for_trl_names_the_length_that_cuts_rows(
    database: Database, tmp_path: Path, name: str
) -> None:
    with database.begin() as connection:
        for place, outcome in enumerate(("fast", "incorrect")):
            evaluate(connection, problem(1), code(f"{place}").encode(), outcome)
    export.export(database, spec_of({"format": name, "similarity": "none"}), tmp_path / name)
    card = (tmp_path / name / "README.md").read_text()
    assert "Set `max_length`" in card.partition("## Training")[2].partition("\n## ")[0]


@pytest.mark.parametrize(
    ("where", "said", "unsaid"),
    [
        (
            "correct = false",
            "names `correct`: wrong answers may bear loss",
            "suspects or hacks may",
        ),
        (
            "status = passed and verdict = hack",
            "names `verdict`: suspects or hacks may bear loss",
            "names `correct`",
        ),
        ("level = 2", "Secrets were looked for", "may bear loss"),
    ],
)
def test_the_card_says_what_the_filter_admits(
    database: Database, tmp_path: Path, where: str, said: str, unsaid: str
) -> None:
    for outcome in ("fast", "incorrect", "hack"):
        dialogue(database, [outcome], run="r", label=outcome)
    rows(database, tmp_path / "out", where=where, similarity="none")
    card = (tmp_path / "out/README.md").read_text()
    assert said in card
    assert unsaid not in card
