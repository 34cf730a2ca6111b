"""Samples that others made: each layout is read, stored once, and comes out of an export again."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from app import export, imports
from app.domain.trajectory import Run
from app.imports import BadImportError
from app.store import tables
from app.store.postgres.database import Database
from app.store.trajectory import trajectories
from tests.integration import dataset_seed

REFERENCE = "class Model:\n    kind = 'x'\n"
CODE = "import triton\n\nclass ModelNew:\n    n = 1\n"


def write(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def count(database: Database, *names: str) -> list[int]:
    return [dataset_seed.count(database, getattr(tables, name)) for name in names]


def test_json_lines_of_every_shape_are_stored_once(database: Database, tmp_path: Path) -> None:
    dialogue = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": f"```python\n{CODE}```"},
        {"role": "user", "content": "faster"},
        {"role": "assistant", "content": "I cannot."},
    ]
    path = write(
        tmp_path / "mine.jsonl",
        {
            "reference": REFERENCE,
            "candidate": CODE,
            "id": "a",
            "licence": "MIT",
            "name": "x",
            "level": 2,
        },
        {
            "reference": REFERENCE,
            "messages": dialogue[:1],
            "response": f"```\n{CODE}# 2\n```",
            "id": "b",
            "name": "x",
        },
        {"reference": REFERENCE, "messages": dialogue, "id": "c", "name": "x"},
    )
    found = imports.jsonl(database, path, model="org/m")
    assert (found.problems, found.samples, found.new_samples) == (1, 3, 3)
    assert count(database, "trajectories", "turns", "jobs", "candidates") == [3, 4, 2, 2]
    with database.begin() as connection:
        assert connection.execute(sa.select(tables.problems.c.licence)).scalars().first() == "MIT"
        assert connection.execute(sa.select(tables.runs.c.model)).scalar_one() == "org/m"
    assert imports.jsonl(database, path, model="org/m").new_samples == 0
    assert count(database, "trajectories", "turns") == [3, 4]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({}, "in `reference`"),
        ({"reference": "x", "candidate": 1}, "expected text in `candidate`"),
        ({"reference": "nowhere/1_Op", "candidate": "x"}, "which names none"),
        ({"reference": "x", "messages": [{"role": "user"}]}, "role and content"),
        ({"reference": "x", "messages": [{"role": "user", "content": "a"}]}, "end with an answer"),
        ({"reference": "x", "candidate": "", "backend": "cobol"}, "cobol"),
        ({"reference": "x", "response": "none", "backend": ["triton"]}, "expected one of triton"),
    ],
)
def test_a_bad_line_is_named_and_the_others_are_stored(
    database: Database, tmp_path: Path, line: dict[str, Any], message: str
) -> None:
    path = write(tmp_path / "mine.jsonl", {"reference": REFERENCE, "candidate": CODE}, line)
    found = imports.jsonl(database, path)
    assert len(found.bad) == 1
    assert re.search(r"mine\.jsonl:2: .*" + message, found.bad[0])
    assert (found.samples, found.new_samples) == (1, 1)
    assert count(database, "trajectories", "jobs") == [1, 1]
    with pytest.raises(BadImportError, match=message):
        imports.jsonl(database, write(tmp_path / "all bad.jsonl", line))
    assert count(database, "runs") == [1]


def test_further_fields_are_claims_and_a_reference_may_name_a_stored_problem(
    database: Database, tmp_path: Path
) -> None:
    first = {
        "reference": REFERENCE,
        "candidate": CODE,
        "name": "x",
        "source_set": "mine",
        "id": 1,
        "speedup": 9.5,
    }
    imports.jsonl(database, write(tmp_path / "first.jsonl", first))
    with database.begin() as connection:
        assert connection.execute(sa.select(tables.trajectories.c.claims)).scalar_one() == {
            "speedup": 9.5
        }
        problem_id = connection.execute(sa.select(tables.problems.c.problem_id)).scalar_one()
    lines = [
        {"reference": name, "candidate": CODE + "# 2\n", "id": name}
        for name in ("mine/x", str(problem_id))
    ]
    found = imports.jsonl(database, write(tmp_path / "second.jsonl", *lines))
    assert (found.new_samples, found.bad) == (2, ())
    assert count(database, "problems", "trajectories", "jobs") == [1, 3, 2]


def test_null_fields_are_fields_that_are_left_out(database: Database, tmp_path: Path) -> None:
    """Data frames write every column of every row."""
    nothing = dict.fromkeys(
        ("id", "name", "source_set", "level", "entry_point", "licence", "backend", "response")
    )
    lines = [{"reference": REFERENCE, "candidate": f"{CODE}# {n}\n"} | nothing for n in range(2)]
    found = imports.jsonl(database, write(tmp_path / "mine.jsonl", *lines))
    assert (found.problems, found.new_samples, found.bad) == (1, 2, ())
    with database.begin() as connection:
        columns = (tables.problems.c.entry_point, tables.problems.c.source_set)
        assert connection.execute(sa.select(*columns)).one() == ("Model", "imported")
    more = {"reference": REFERENCE, "candidate": f"{CODE}# 3\n"} | nothing
    again = imports.jsonl(database, write(tmp_path / "mine.jsonl", *lines, more))
    assert (again.samples, again.new_samples) == (3, 1)


def test_another_device_class_queues_the_same_samples_once(
    database: Database, tmp_path: Path
) -> None:
    path = write(tmp_path / "mine.jsonl", {"reference": REFERENCE, "candidate": CODE, "id": "a"})
    assert imports.jsonl(database, path).new_samples == 1
    assert [imports.jsonl(database, path, device_class="h200").new_samples for _ in range(2)] == [
        1,
        0,
    ]
    with database.begin() as connection:
        assert set(connection.scalars(sa.select(tables.jobs.c.device_class))) == {"cpu", "h200"}
        assert set(connection.scalars(sa.select(tables.trajectories.c.label))) == {"a", "a@h200"}
    assert imports.jsonl(database, path).new_samples == 0


def test_plain_pytorch_under_a_prompt_for_triton_is_judged_as_triton(
    database: Database, tmp_path: Path
) -> None:
    asked = [{"role": "user", "content": "Write a custom Triton kernel for softmax."}]
    answer = "```python\nimport torch\nclass ModelNew: ...\n```"
    path = write(
        tmp_path / "mine.jsonl", {"reference": REFERENCE, "messages": asked, "response": answer}
    )
    imports.jsonl(database, path)
    with database.begin() as connection:
        assert connection.scalars(sa.select(tables.candidates.c.backend)).all() == ["triton"]


def test_dr_kernel_dialogues_and_prompts(database: Database, tmp_path: Path) -> None:
    messages = [
        {"role": role, "content": f"```\n{CODE}# {n}\n```"}
        for n, role in enumerate(["user", "assistant"] * 5)
    ]
    row = {
        "messages": messages,
        "uuid": 7,
        "entry_point": "Model",
        "repo_name": "r",
        "module_name": "m",
        "final_speedup": 1.0,
        "num_rounds": 5,
        "original_python_code": REFERENCE,
        "best_round": 3,
        "timestamp": 0.0,
        "conversion_mode": "full_conversation_enhanced",
        "enable_thinking": False,
    }
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "cold.parquet")
    found = imports.drkernel_coldstart(database, tmp_path / "cold.parquet")
    assert (found.samples, count(database, "turns", "jobs")) == (1, [5, 5])
    rl = {
        "data_source": "cuda_llm",
        "prompt": messages[:1],
        "ability": "kernel_optimization",
        "reward_model": {"ground_truth": REFERENCE + "# 2\n", "style": "rule"},
        "extra_info": {"entry_point": "Model", "module_name": "m", "uuid": "9"},
    }
    pq.write_table(pa.Table.from_pylist([rl]), tmp_path / "rl.parquet")
    assert imports.drkernel_rl(database, tmp_path / "rl.parquet").problems == 1
    empty = rl | {"reward_model": {"ground_truth": None, "style": "rule"}}
    pq.write_table(pa.Table.from_pylist([rl, empty]), tmp_path / "rl.parquet")
    left_out = imports.drkernel_rl(database, tmp_path / "rl.parquet")
    assert (left_out.problems, len(left_out.bad)) == (1, 1)
    with pytest.raises(BadImportError, match="licenses, python_code missing"):
        imports.kernelbook(database, tmp_path / "cold.parquet")


def test_kernelbook_problems_keep_their_licences(database: Database, tmp_path: Path) -> None:
    row = {
        "entry_point": "Net",
        "python_code": "class Net: ...\n",
        "licenses": ["MIT", "Apache-2.0"],
        "uuid": 0,
    }
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "book.parquet")
    assert imports.kernelbook(database, tmp_path / "book.parquet").problems == 1
    with database.begin() as connection:
        columns = (tables.problems.c.licence, tables.problems.c.entry_point, tables.problems.c.name)
        stored = connection.execute(sa.select(*columns)).one()
    assert tuple(stored) == ("Apache-2.0 OR MIT", "Net", "Net_0")


def test_caesar_logs_are_dialogues_on_known_problems(database: Database, tmp_path: Path) -> None:
    reference = "class Model: ...\ndef get_inputs(): return []\ndef get_init_inputs(): return []\n"
    (tmp_path / "kb/level1").mkdir(parents=True)
    (tmp_path / "kb/level1/19_ReLU.py").write_text(reference)
    log = tmp_path / "logs/level1/model/problem_19/sample_0/log.json"
    log.parent.mkdir(parents=True)
    claim = {"compiled": True, "correctness": True, "runtime": 1.0}
    turns = {
        "1": {"context": "go", "model_response": f"```\n{CODE}```", "eval_result": claim},
        "2": {"context": "faster", "kernel_code": CODE + "# 2\n", "eval_result": claim},
    }
    log.write_text(json.dumps(turns))
    with pytest.raises(BadImportError, match="problem 19 of level 1 is not here"):
        imports.caesar(database, tmp_path / "logs")
    imports.kernelbench(database, tmp_path / "kb")
    found = imports.caesar(database, tmp_path / "logs", model="r1")
    assert (found.samples, count(database, "turns", "jobs")) == (1, [2, 2])
    with database.begin() as connection:
        settings = connection.execute(sa.select(tables.runs.c.settings)).scalar_one()
    assert settings["recorded" if "recorded" in settings else "eval_results"]
    cut_off = tmp_path / "logs/level1/model/problem_19/sample_1/log.json"
    cut_off.parent.mkdir()
    cut_off.write_text(json.dumps(turns)[:-9])
    found = imports.caesar(database, tmp_path / "logs", model="r1")
    assert (found.samples, found.new_samples) == (1, 0)
    [bad] = found.bad
    assert re.search(r"sample_1/log\.json: expected JSON", bad)


def test_what_was_exported_for_dr_kernel_can_be_imported_again(
    database: Database, tmp_path: Path
) -> None:
    with database.begin() as connection:
        run_id = trajectories.add_run(connection, Run(name="two", model="org/model-a"))
        attempts = [
            dataset_seed.evaluate(
                connection, dataset_seed.problem(0), dataset_seed.code(kind).encode(), kind
            )
            for kind in ("slow", "fast")
        ]
        turns = [
            dataset_seed.turn(
                (f"Prompt {kind}.",), f"Thinking.\n```python\n{dataset_seed.code(kind)}```", stored
            )
            for kind, stored in zip(("slow", "fast"), attempts, strict=True)
        ]
        problem_id = attempts[0].problem_id
        trajectories.add(
            connection,
            problem_id=problem_id,
            backend="triton",
            turns=turns,
            run_id=run_id,
            label="t",
        )
    export.export(
        database,
        export.Spec(format="drkernel_coldstart", where="run = two", val_fraction=0),
        tmp_path / "d",
    )
    found = imports.drkernel_coldstart(database, tmp_path / "d/data/train-00000.parquet")
    assert (found.samples, found.new_samples) == (1, 1)


def test_columns_of_types_that_json_lacks_are_kept_as_text(
    database: Database, tmp_path: Path
) -> None:
    moment = datetime(2026, 11, 24, 6, 30, tzinfo=UTC)
    odd = {
        "at": moment,
        "day": moment.date(),
        "raw": b"\xff\x00a",
        "price": Decimal("1.50"),
        "share": float("nan"),
        "took": timedelta(seconds=3),
        "nested": {"at": moment, "values": [1, None]},
    }
    answer = "```python\nimport triton\nclass ModelNew: pass\n```"
    messages = [{"role": "user", "content": "Write it."}, {"role": "assistant", "content": answer}]
    row = {
        "messages": messages,
        "uuid": 0,
        "entry_point": "Model",
        "original_python_code": "class Model: pass\n",
    }
    pq.write_table(pa.Table.from_pylist([row | odd]), tmp_path / "cold.parquet")
    found = imports.drkernel_coldstart(database, tmp_path / "cold.parquet")
    assert (found.samples, found.bad) == (1, ())
    with database.begin() as connection:
        [claims] = connection.scalars(sa.select(tables.trajectories.c.claims))
    assert (claims["at"], claims["day"], claims["price"]) == (
        moment.isoformat(),
        "2026-11-24",
        "1.50",
    )
    assert (claims["share"], claims["took"]) == (None, "0:00:03")
    assert claims["nested"] == {"at": moment.isoformat(), "values": [1, None]}
