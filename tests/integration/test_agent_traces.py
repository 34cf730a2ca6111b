"""Trajectories in the formats of agent frameworks: ATIF out and in again, and
rollouts of verifiers in.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from app import cli, imports
from app.domain.collection.call import ModelAnswer, ModelRequest
from app.imports import BadImportError
from app.settings import Settings
from app.store import tables
from app.store.collection import dialogues as stored_dialogues
from app.store.postgres.database import Database, DatabaseUnavailableError
from app.store.trajectory import trajectories
from tests.integration.collecting import CODE, Site, said, specification


def model(request: ModelRequest) -> ModelAnswer:
    turn = len(request.messages) // 2
    return said(
        CODE.replace("passes", "wrong") if turn == 0 else CODE,
        reasoning=f"thought {turn}",
        prompt_token_ids=(1, 2),
        token_ids=(3, 4, 5),
        logprobs=(-0.5, -0.25, -0.125),
        model="scripted",
    )


def dialogues(database: Database, run: str) -> list[list[Any]]:
    """Messages and answers of every trajectory of a run."""
    with database.begin() as connection:
        known = list(connection.execute(tables.runs.select().where(tables.runs.c.name == run)))
        lines = list(
            connection.execute(
                tables.trajectories.select().where(tables.trajectories.c.run_id == known[0].run_id)
            )
        )
        found = [trajectories.get(connection, line.trajectory_id) for line in lines]
    return sorted(
        ([(turn.messages, turn.response) for turn in each.turns] for each in found if each), key=str
    )


def test_a_collection_goes_out_as_atif_and_comes_in_again(
    settings: Settings, database: Database, broker: Any, problem_id: Any, tmp_path: Path
) -> None:
    site = Site(database, broker, model)
    site.start(
        specification(
            strategy={"name": "sequential", "samples": 2, "turns": 2},
            prompts={"system": None, "problem": "dr_kernel"},
        )
    )
    site.run()
    run = CliRunner(env=settings.to_env()).invoke
    made = run(cli.main, ["collect", "atif", "a", "--out", str(tmp_path / "out")])
    assert (made.exit_code, made.output.strip()) == (0, f"2 trajectories in {tmp_path / 'out'}")
    [first, _] = [json.loads(path.read_text()) for path in sorted((tmp_path / "out").iterdir())]
    assert [step["source"] for step in first["steps"]] == ["user", "agent"] * 2
    answer = first["steps"][1]
    assert answer["reasoning_content"] == "thought 0"
    assert answer["metrics"]["completion_token_ids"] == [3, 4, 5]
    assert answer["metrics"]["logprobs"] == [-0.5, -0.25, -0.125]
    assert answer["extra"]["request"]["seed"] is not None
    assert (answer["extra"]["status"], first["steps"][3]["extra"]["status"]) == (
        "incorrect",
        "passed",
    )
    assert first["final_metrics"] == {
        "total_steps": 4,
        "total_prompt_tokens": 100,
        "total_completion_tokens": 40,
        "total_cost_usd": 0.002,
    }

    again = run(cli.main, ["import", "atif", str(tmp_path / "out"), "--run", "again", "--json"])
    assert again.exit_code == 0, again.output
    assert dialogues(database, "again") == dialogues(database, "a")
    with database.begin() as connection:
        assert (
            len({row.problem_id for row in connection.execute(tables.trajectories.select())}) == 1
        )
    missing = run(cli.main, ["collect", "atif", "none", "--out", str(tmp_path / "none")])
    assert (missing.exit_code, "none" in missing.output) == (2, True)
    assert not (tmp_path / "none").exists()


def test_atif_that_breaks_off_leaves_no_folder(
    settings: Settings,
    database: Database,
    broker: Any,
    problem_id: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = Site(database, broker, model)
    site.start(specification(strategy={"name": "independent", "samples": 2}))
    site.run()
    of_run = stored_dialogues.of_run

    def broken_off(*arguments: Any) -> Iterator[Any]:
        first, *_ = of_run(*arguments)
        yield first
        raise DatabaseUnavailableError("PostgreSQL went away")

    command = ["collect", "atif", "a", "--out", str(tmp_path / "out")]
    run = CliRunner(env=settings.to_env()).invoke
    with monkeypatch.context() as broken:
        broken.setattr(stored_dialogues, "of_run", broken_off)
        assert run(cli.main, command).exit_code == 3
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "out").mkdir()
    assert run(cli.main, command).exit_code == 0
    assert len(list((tmp_path / "out").iterdir())) == 2
    assert run(cli.main, command).exit_code == 2, "it is written over by nothing"


def node(
    role: str, content: str, parent: int | None, *, sampled: bool = False, **message: Any
) -> dict[str, Any]:
    return {
        "parent": parent,
        "message": {"role": role, "content": content, **message},
        "sampled": sampled,
    }


TRACE = {
    "id": "abc",
    "task": {
        "type": "KernelTask",
        "data": {"idx": 0, "info": {"reference": "class Model: ...", "name": "relu"}},
    },
    "nodes": [
        node("user", "Write a kernel.", None),
        node("assistant", CODE, 0, sampled=True, reasoning_content="hm"),
        node("user", "Faster.", 1),
        node("assistant", f"A\n{CODE}", 2, sampled=True),
        node("assistant", f"B\n{CODE}", 2, sampled=True),
        node("user", "never answered", 4),
    ],
    "rewards": {"speed": {"score": 0.5, "weight": 1.0}},
    "errors": [],
}


def test_every_path_of_a_trace_is_a_trajectory(database: Database, tmp_path: Path) -> None:
    (tmp_path / "traces.jsonl").write_text(
        json.dumps({"id": "e", "env": {"id": "kernels"}, "traces": [TRACE], "errors": []}) + "\n"
    )
    found = imports.verifiers(database, tmp_path, run="v", model="m")
    assert (found.samples, found.new_samples, found.problems, found.bad) == (2, 2, 1, ())
    assert imports.verifiers(database, tmp_path, run="v", model="m").new_samples == 0
    for letter, turns in zip("AB", dialogues(database, "v"), strict=True):
        assert [[message.content for message in messages] for messages, _ in turns] == [
            ["Write a kernel."],
            ["Faster."],
        ]
        assert [response for _, response in turns] == [
            f"<think>\nhm\n</think>\n\n{CODE}",
            f"{letter}\n{CODE}",
        ]
    with database.begin() as connection:
        claims = [row.claims for row in connection.execute(tables.trajectories.select())]
    assert all(each["rewards"] == TRACE["rewards"] for each in claims)


def test_outputs_of_the_first_api_and_bad_lines(database: Database, tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    good = {
        "prompt": [{"role": "user", "content": "Write."}],
        "completion": [
            {"role": "assistant", "content": CODE},
            {"role": "user", "content": "wrong"},
        ],
        "reward": 0.5,
    }
    bad: list[Any] = [
        [],
        {},
        {
            "traces": [
                {
                    "nodes": [node("user", "x", None)],
                    "task": {"data": {"reference": "class Model: ..."}},
                }
            ]
        },
        {"nodes": [node("user", "x", 7)]},
        {**good, "prompt": 1},
    ]
    file.write_text("\n".join(json.dumps(each) for each in [good, *bad]))
    imports.jsonl(database, stored(tmp_path))
    found = imports.verifiers(database, file, problem="tests/relu")
    assert (found.samples, len(found.bad)) == (1, len(bad))
    assert dialogues(database, "results")[0][0][1] == CODE
    with pytest.raises(BadImportError, match="reference"):
        imports.verifiers(database, file, run="no problem")


def test_a_problem_of_the_caller_is_for_records_that_name_none(
    database: Database, tmp_path: Path
) -> None:
    imports.jsonl(database, stored(tmp_path))
    own = {"reference": "class Model: own = 1", "name": "own"}
    said = {"prompt": "Write.", "completion": CODE}
    (tmp_path / "results.jsonl").write_text(
        "\n".join(json.dumps(each) for each in ({**said, "info": own}, said))
    )
    document = {
        "schema_version": "ATIF-v1.7",
        "session_id": "s",
        "agent": {"name": "a", "version": "1"},
        "steps": [
            {"step_id": 1, "source": "user", "message": "Write."},
            {"step_id": 2, "source": "agent", "message": CODE},
        ],
    }
    (tmp_path / "atif.jsonl").write_text(
        "\n".join(json.dumps(each) for each in ({**document, "extra": own}, document))
    )
    for read in (imports.verifiers, imports.atif):
        name = "results" if read is imports.verifiers else "atif"
        found = read(database, tmp_path / f"{name}.jsonl", run=name, problem="tests/relu")
        assert (found.new_samples, found.bad) == (2, ())
        assert problems_of(database, name) == {"own": 1, "relu": 1}


def problems_of(database: Database, run: str) -> dict[str, int]:
    """Trajectories of a run by the name of their problem."""
    source = tables.trajectories.join(tables.problems).join(tables.runs)
    with database.begin() as connection:
        named = sa.select(tables.problems.c.name).select_from(source)
        return dict(Counter(connection.scalars(named.where(tables.runs.c.name == run))))


def test_answers_that_a_prompt_quotes_are_no_answers_of_the_model(
    database: Database, tmp_path: Path
) -> None:
    example = [
        {"role": "user", "content": "An example."},
        {"role": "assistant", "content": f"Example\n{CODE}"},
        {"role": "user", "content": "Write."},
    ]
    row = {"prompt": example, "completion": [{"role": "assistant", "content": CODE}]}
    row["info"] = {"reference": "class Model: ..."}  # type: ignore[assignment]
    (tmp_path / "results.jsonl").write_text(json.dumps(row))
    imports.verifiers(database, tmp_path / "results.jsonl")
    [[(messages, response)]] = dialogues(database, "results")
    assert [vars(each) for each in messages] == example
    assert response == CODE


def stored(folder: Path) -> Path:
    """A file that stores the problem tests/relu."""
    path = folder / "problems.jsonl"
    path.write_text(
        json.dumps(
            {
                "reference": "class Model: ...",
                "name": "relu",
                "source_set": "tests",
                "candidate": "x",
            }
        )
    )
    return path
