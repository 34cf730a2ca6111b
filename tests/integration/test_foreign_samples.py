"""Samples that others made: each layout is read, stored once, and comes out of an export again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dataset_seed
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from app import export, imports
from app.imports import BadImportError
from app.store import tables
from app.store.session import Database

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
        {"reference": REFERENCE, "candidate": CODE, "id": "a", "licence": "MIT", "name": "x", "level": 2},
        {"reference": REFERENCE, "messages": dialogue[:1], "response": f"```\n{CODE}# 2\n```", "id": "b", "name": "x"},
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
        ({"reference": "x", "wrong": 1}, "unknown field wrong"),
        ({"reference": "x", "messages": [{"role": "user"}]}, "role and content"),
        ({"reference": "x", "messages": [{"role": "user", "content": "a"}]}, "end with an answer"),
        ({"reference": "x", "candidate": "", "backend": "cobol"}, "cobol"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_stored(
    database: Database, tmp_path: Path, line: dict[str, Any], message: str
) -> None:
    path = write(tmp_path / "mine.jsonl", {"reference": REFERENCE, "candidate": CODE}, line)
    with pytest.raises(BadImportError, match=r"mine\.jsonl:2: .*" + message):
        imports.jsonl(database, path)
    assert count(database, "trajectories", "jobs") == [0, 0]


def test_dr_kernel_dialogues_and_prompts(database: Database, tmp_path: Path) -> None:
    messages = [{"role": role, "content": f"```\n{CODE}# {n}\n```"} for n, role in enumerate(["user", "assistant"] * 5)]
    row = {
        "messages": messages, "uuid": 7, "entry_point": "Model", "repo_name": "r", "module_name": "m",
        "final_speedup": 1.0, "num_rounds": 5, "original_python_code": REFERENCE, "best_round": 3, "timestamp": 0.0,
        "conversion_mode": "full_conversation_enhanced", "enable_thinking": False,
    }  # fmt: skip
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
    with pytest.raises(BadImportError, match="licenses, python_code missing"):
        imports.kernelbook(database, tmp_path / "cold.parquet")


def test_kernelbook_problems_keep_their_licences(database: Database, tmp_path: Path) -> None:
    row = {"entry_point": "Net", "python_code": "class Net: ...\n", "licenses": ["MIT", "Apache-2.0"], "uuid": 3}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "book.parquet")
    assert imports.kernelbook(database, tmp_path / "book.parquet").problems == 1
    with database.begin() as connection:
        stored = connection.execute(sa.select(tables.problems.c.licence, tables.problems.c.entry_point)).one()
    assert tuple(stored) == ("Apache-2.0 OR MIT", "Net")


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
    assert imports.caesar(database, tmp_path / "logs", model="r1").new_samples == 0


def test_what_was_exported_for_dr_kernel_can_be_imported_again(database: Database, tmp_path: Path) -> None:
    dataset_seed.fill(database)
    export.export(
        database, export.Spec(format="drkernel_coldstart", where="run = three", val_fraction=0), tmp_path / "d"
    )
    found = imports.drkernel_coldstart(database, tmp_path / "d/data/train-00000.parquet")
    assert (found.samples, found.new_samples) == (1, 1)
