"""RL prompts of problems that were never tried: `export --from problems`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app import imports
from app.export import ExportError, export, spec_of, verify
from app.store.postgres.database import Database
from app.store.trajectory import problems
from tests.integration import dataset_seed

REFERENCE = (
    "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return (x"
    " {}).{}\n"
)
ASKED = [
    {"role": "system", "content": "You write kernels."},
    {"role": "user", "content": "Make it fast: {}"},
]


def rl_file(path: Path) -> Path:
    rows = [
        {
            "prompt": [
                {**message, "content": message["content"].format(number)} for message in ASKED
            ],
            "reward_model": {"ground_truth": REFERENCE.format(f"* {number} - {number}", operation)},
            "extra_info": {
                "uuid": number,
                "entry_point": "Model",
                "level": 1 + number % 2,
                "ops": operation,
            },
        }
        for number, operation in enumerate(
            ("cumsum(0).flip(0)", "erf().erf()", "sort().values.erf()")
        )
    ]
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def made(database: Database, out: Path, **options: Any) -> list[dict[str, Any]]:
    export(
        database,
        spec_of({"format": "trl_prompts", "source": "problems", "val_fraction": 0} | options),
        out,
    )
    assert verify(out) == []
    return [
        row
        for file in sorted(out.glob("data/*.parquet"))
        for row in pq.ParquetFile(file).read().to_pylist()
    ]


def test_problems_leave_under_the_prompts_that_they_came_with(
    database: Database, tmp_path: Path
) -> None:
    found = imports.drkernel_rl(database, rl_file(tmp_path / "rl.parquet"))
    assert (found.problems, found.bad) == (3, ())
    rows = made(database, tmp_path / "all")
    assert sorted(row["prompt"][1]["content"] for row in rows) == [
        f"Make it fast: {number}" for number in range(3)
    ]
    assert {row["prompt"][0]["role"] for row in rows} == {"system"}
    assert {(row["prompt_source"], row["backend"], row["attempts"]) for row in rows} == {
        ("source_set", "triton", 0)
    }
    assert {row["level"] for row in made(database, tmp_path / "level", where="level = 2")} == {2}
    family = rows[0]["family"]
    assert [row["family"] for row in made(database, tmp_path / "family", families=[family])] == [
        family
    ]
    both = made(database, tmp_path / "both", backends=["triton", "cuda"])
    assert sorted(row["backend"] for row in both) == ["cuda"] * 3 + ["triton"] * 3
    with pytest.raises(ExportError, match="expected a format of rl_prompts"):
        made(database, tmp_path / "sft", format="trl_sft")
    with pytest.raises(ValueError, match="where: expected fields of problems"):
        made(database, tmp_path / "speed", where="speedup > 1")


def test_a_template_stands_in_and_a_run_gives_the_pass_rate(
    database: Database, tmp_path: Path
) -> None:
    dataset_seed.fill(database)
    with database.begin() as connection:
        problems.add(connection, [dataset_seed.problem(99)])
    rows = made(database, tmp_path / "all")
    assert len(rows) == 8
    assert {row["prompt_source"] for row in rows} == {"template@2"}
    assert all("in Triton" in row["prompt"][0]["content"] for row in rows)
    tried = made(database, tmp_path / "tried", rate_run="three", pass_rate=[0.0, 0.5])
    assert [(row["problem"], row["pass_rate"], row["attempts"]) for row in tried] == [
        ("0_Op", 0.0, 1)
    ]
    with pytest.raises(ValueError, match="rate_run"):
        made(database, tmp_path / "none", rate_run="nowhere")


def test_levels_survive_an_export_in_dr_kernels_layout(database: Database, tmp_path: Path) -> None:
    """Their `level` is text there, and may be empty."""
    imports.drkernel_rl(database, rl_file(tmp_path / "rl.parquet"))
    made(database, tmp_path / "out", format="drkernel_rl", where="level = 2")
    [file] = (tmp_path / "out").glob("data/*.parquet")
    [row] = pq.read_table(file).to_pylist()
    assert row["extra_info"]["level"] == "2"
    reference = row["reward_model"]["ground_truth"]
    rows = [
        row
        | {"extra_info": row["extra_info"] | {"level": level, "module_name": f"again{level}"}}
        | {"reward_model": {"ground_truth": f"{reference}# {level}\n", "style": "rule"}}
        for level in ("2", "", "hard")
    ]
    pq.write_table(pa.Table.from_pylist(rows), file)
    found = imports.drkernel_rl(database, file)
    assert (found.problems, found.bad) == (3, ())
    again = made(database, tmp_path / "again", where="level = 2 and problem ~ again")
    assert [row["level"] for row in again] == [2]
