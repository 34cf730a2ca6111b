"""Rows of a dataset: which attempts leave, under which prompts, split how; manifest and card."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from app import export as exporting
from app.domain import benchmarks
from app.domain.problem import Problem
from app.store.dataset import export_matching, exports, listing
from app.store.postgres.database import Database
from app.store.trajectory import problems
from tests.integration import dataset_seed
from tests.integration.dataset_seed import CORRECT_AND_CLEAN
from tests.integration.exported import dialogue, funnel, make, rows_in


def test_sft_rows_are_correct_clean_conversations(filled: Database, tmp_path: Path) -> None:
    manifest = make(filled, tmp_path / "set", "speedup_ci_low > 1.1", context="wrong")
    rows = rows_in(tmp_path / "set")
    assert len(rows) == manifest["rows"] == 7 + 1 + 1
    for row in rows:
        roles = [message["role"] for message in dialogue(row)]
        assert roles[-2:] == ["user", "assistant"]
        assert "class ModelNew" in dialogue(row)[-1]["content"]
        assert row["verdict"] == "clean"
        assert row["status"] == "passed"
        assert row["speedup_ci_low"] > 1.1
    assert {row["prompt_source"] for row in rows} == {"template@2", "recorded"}


def test_speedups_of_the_cpu_never_stand_beside_those_of_a_gpu(
    own: Database, tmp_path: Path
) -> None:
    with own.begin() as connection:
        problem = dataset_seed.problem(0)
        here, there = (
            dataset_seed.evaluate(connection, problem, code.encode(), kind, device="h200")
            for code, kind in (
                (dataset_seed.code("fast0"), "slow"),
                (dataset_seed.code("gpu"), "slow"),
            )
        )
    manifest = make(own, tmp_path / "usual", "", layout="trl_prompt_completion", kind="single")
    assert {row["device_class"] for row in rows_in(tmp_path / "usual")} == {"h200"}
    assert manifest["rows"] == 2
    assert "h200" in next(
        stage["rule"] for stage in manifest["funnel"] if stage["stage"] == "device"
    )
    everything = make(
        own, tmp_path / "all", "", layout="trl_prompt_completion", kind="single", device="all"
    )
    assert "device" not in funnel(everything)
    assert {str(here.evaluation_id), str(there.evaluation_id)} < {
        r["evaluation_id"] for r in rows_in(tmp_path / "all")
    }
    pairs = make(own, tmp_path / "dpo", "", layout="trl_preference", device="all")
    assert pairs["rows"]
    assert all(
        row["device_class"] == row["rejected_device_class"] for row in rows_in(tmp_path / "dpo")
    )
    assert {row["device_class"] for row in rows_in(tmp_path / "dpo")} == {"cpu"}
    cpu = make(own, tmp_path / "cpu", "", device="cpu")
    lineage = pq.read_table(next((tmp_path / "cpu").glob("lineage-*.parquet"))).to_pylist()
    assert {(line["device_class"], line["backend"]) for line in lineage} == {("cpu", "triton")}
    assert cpu["rows"] > 2


RELU = b"""
import torch

class Rectifier(torch.nn.Module):
    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return torch.relu(image)

def get_inputs():
    return [torch.randn(64, 64)]

def get_init_inputs():
    return []
"""


def test_problems_of_a_benchmark_are_held_out_under_any_name(own: Database, tmp_path: Path) -> None:
    """KernelBench's ReLU, renamed, in a set of another name; and one that only its
    operators give away.
    """
    named = Problem(name="1_Mine", reference=RELU, source_set="derived", entry_point="Rectifier")
    written = Problem(
        name="2_Mine",
        reference=RELU.replace(b"torch.relu(image)", b"image.relu()"),
        source_set="derived",
        entry_point="Rectifier",
    )
    key = next(iter(benchmarks.known()[0].operators))
    version, _, unnumbered = key.partition(":")
    with own.begin() as connection:
        for place, problem in enumerate((named, written)):
            stored = dataset_seed.evaluate(
                connection, problem, dataset_seed.code(f"relu{place}").encode()
            )
        problems.set_operators(
            connection, stored.job_id, f"{version}:0000000000000000:{unnumbered}"
        )
    usual = make(own, tmp_path / "usual", "source_set = derived or source_set = samples")
    assert "derived" not in usual["source_sets"]
    assert sorted(line.partition(" ")[0] for line in usual["benchmarks"].values()) == [
        "family",
        "semantic",
    ]
    card = (tmp_path / "usual" / "README.md").read_text()
    assert "2 of this database (1 by family, 1 by semantic)" in card
    assert "family KernelBench/level1/19_ReLU" in card
    with pytest.raises(
        exporting.ExportError, match=r"stage 'benchmarks' .* none left; `include_benchmarks`"
    ):
        make(own, tmp_path / "none", "source_set = derived")
    asked = make(own, tmp_path / "asked", "source_set = derived", include_benchmarks=True)
    assert asked["source_sets"] == {"derived": 2}
    assert "must not be evaluated on KernelBench" in (tmp_path / "asked" / "README.md").read_text()
    report = make(own, tmp_path / "report", "source_set = derived", layout="kernelbench_results")
    assert report["rows"] == 2


def test_the_funnel_counts_every_stage(filled: Database, tmp_path: Path) -> None:
    stages = funnel(make(filled, tmp_path / "set", "speedup < 5", context="wrong"))
    assert stages == {
        "snapshot": dataset_seed.ATTEMPTS,
        "where": 7 * 3 + 2 + 2,
        "valid": 7 * 3 + 2 + 2,
        "device": 7 * 3 + 2 + 2,
        "judged": 7 * 3 + 2 + 2,
        "correct": 7 * 3 + 2 + 2,
        "clean": CORRECT_AND_CLEAN + 1,
        "extraction": CORRECT_AND_CLEAN + 1,
        "benchmarks": CORRECT_AND_CLEAN + 1,
        "context": CORRECT_AND_CLEAN + 1,
        "turns": CORRECT_AND_CLEAN + 1,
        "distinct": CORRECT_AND_CLEAN,  # the shared job's second turn shows the same code
        "choice": CORRECT_AND_CLEAN,
        "balance": CORRECT_AND_CLEAN,
        "rows": CORRECT_AND_CLEAN,
    }


@pytest.mark.parametrize(
    "where", ["run = three and turn = 2", "speedup < 5", "finding = no_custom_kernel", "turn = 1"]
)
def test_what_is_read_by_key_and_what_is_read_whole_give_the_same_dataset(
    filled: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def made(name: str) -> tuple[str, dict[str, int]]:
        manifest = make(
            filled, tmp_path / name, f"({where}) and verdict in (clean, hack)", context="any"
        )
        return str(manifest["content_sha256"]), funnel(manifest)

    by_key = made("by_key")
    kept = sum(
        pq.read_metadata(path).num_rows
        for path in (tmp_path / "by_key").glob("decisions-*.parquet")
    )
    assert kept == by_key[1]["where"] < by_key[1]["snapshot"], (
        "decisions are as large as the selection"
    )
    monkeypatch.setattr(export_matching, "MOST_MATCHING", 0)
    assert made("whole") == by_key


def test_a_later_turn_holds_its_history_and_ends_with_its_own_answer(
    filled: Database, tmp_path: Path
) -> None:
    make(filled, tmp_path / "set", "run = three and turn = 2", context="wrong")
    [row] = rows_in(tmp_path / "set")
    contents = [message["content"] for message in dialogue(row)]
    assert [message["role"] for message in dialogue(row)] == ["user", "assistant"] * 3
    assert contents[0::2] == ["prompt 0", "prompt 1", "prompt 2"]
    assert [f"turn{n}" in text for n, text in enumerate(contents[1::2])] == [True, True, True]
    assert (row["turn"], row["model"]) == (2, "org/model-a")


@pytest.mark.parametrize(
    ("where", "verdicts"),
    [
        ("", {"clean"}),
        ("finding = no_custom_kernel or correct", {"clean"}),
        ("measured_speedup > 1", {"clean"}),
        ("verdict != hack", {"clean", "suspect"}),
        ("verdict = hack", {"hack"}),
        ("verdict = hack or verdict = suspect or verdict = clean", {"clean", "suspect", "hack"}),
    ],
)
def test_suspects_and_hacks_leave_only_by_name(
    filled: Database, tmp_path: Path, where: str, verdicts: set[str]
) -> None:
    make(filled, tmp_path / "set", where)
    rows = rows_in(tmp_path / "set")
    assert {row["verdict"] for row in rows} == verdicts
    assert all(row["speedup"] is None for row in rows if row["verdict"] == "hack")


def test_wrong_answers_leave_only_by_name_and_invalid_ones_never(
    filled: Database, tmp_path: Path
) -> None:
    make(filled, tmp_path / "set", "status != passed")
    assert {row["status"] for row in rows_in(tmp_path / "set")} == {"incorrect", "compile_error"}


def test_rl_rows_are_problems_with_their_prompts(filled: Database, tmp_path: Path) -> None:
    manifest = make(filled, tmp_path / "set", layout="verl_rl", val_fraction=0.3)
    rows = rows_in(tmp_path / "set")
    prompts = [row["prompt"][-1]["content"] for row in rows]
    assert [text for text in prompts if text.startswith("prompt")] in (
        ["prompt 0", "prompt of first"],
        ["prompt of first", "prompt 0"],
    )
    assert len(rows) == manifest["rows"] == 7
    for row in rows:
        assert row["data_source"] == "kernel_assay"
        assert row["ability"] == "kernel_optimization"
        assert row["reward_model"]["style"] == "rule"
        assert row["reward_model"]["ground_truth"].startswith("class Model")
        assert row["prompt"][-1]["role"] == "user"
    for split in ("train", "validation"):
        places = [row["extra_info"]["index"] for row in rows if row["extra_info"]["split"] == split]
        assert places == list(range(len(places)))


def test_splits_never_share_a_problem_and_new_data_moves_none(
    own: Database, tmp_path: Path
) -> None:
    def sides(out: Path) -> dict[str, str]:
        return {
            row["reference_sha256"]: file.name.split("-")[0]
            for file in out.glob("data/*.parquet")
            for row in pq.ParquetFile(file).read().to_pylist()
        }

    make(own, tmp_path / "before", val_fraction=0.4)
    with own.begin() as connection:
        for number in range(20, 40):
            dataset_seed.evaluate(
                connection, dataset_seed.problem(number), dataset_seed.code(f"n{number}").encode()
            )
    make(own, tmp_path / "after", val_fraction=0.4)
    before, after = sides(tmp_path / "before"), sides(tmp_path / "after")
    assert set(before.values()) == {"train", "validation"}
    assert before.items() <= after.items()
    assert len(after) == len(before) + 20


def test_the_same_snapshot_gives_the_same_content(filled: Database, tmp_path: Path) -> None:
    first, second = (make(filled, tmp_path / name) for name in ("a", "b"))
    assert first["content_sha256"] == second["content_sha256"]
    hashes = [
        {file["path"]: file["content_sha256"] for file in one["files"]} for one in (first, second)
    ]
    assert hashes[0] == hashes[1]
    assert first["export_id"] != second["export_id"]


def test_what_parquet_cannot_hold_is_replaced_and_marked(
    database: Database, tmp_path: Path
) -> None:
    odd = "class ModelNew:\n    a = '\ud800\0'\n"
    with database.begin() as connection:
        dataset_seed.evaluate(
            connection, dataset_seed.problem(1), odd.encode("utf-8", "surrogatepass")
        )
        dataset_seed.evaluate(
            connection, dataset_seed.problem(1), dataset_seed.code("even").encode()
        )
    manifest = make(database, tmp_path / "set")
    marks = {row["sanitized"]: dialogue(row)[-1]["content"] for row in rows_in(tmp_path / "set")}
    assert "\ufffd" in marks[True]
    assert "\ufffd" not in marks[False]
    assert manifest["sanitized_rows"] == 1


def test_an_answer_without_the_evaluated_source_is_dropped(
    database: Database, tmp_path: Path
) -> None:
    with database.begin() as connection:
        stored = dataset_seed.evaluate(
            connection, dataset_seed.problem(1), dataset_seed.code("one").encode()
        )
        answers = [
            "I gave up.",
            "```python\n" + dataset_seed.code("one").replace("    ", "\t") + "```",
        ]
        for answer in answers:
            turn = dataset_seed.turn(("go",), answer, stored)
            dataset_seed.trajectories.add(
                connection, problem_id=stored.problem_id, backend="triton", turns=[turn]
            )
    stages = funnel(make(database, tmp_path / "set"))
    assert (stages["clean"], stages["extraction"]) == (2, 1)


def test_the_export_is_recorded_with_every_evaluation_behind_its_rows_once(
    own: Database, tmp_path: Path
) -> None:
    manifest = make(own, tmp_path / "set", context="wrong")
    with own.begin() as connection:
        [made] = listing.datasets(connection)
        recorded = exports.get(connection, made.export_id)
        ids = exports.evaluation_ids(connection, made.export_id)
    assert recorded is not None
    assert recorded.manifest == manifest
    rows, lines = (
        rows_in(tmp_path / "set"),
        pq.read_table(tmp_path / "set/lineage-00000.parquet").to_pylist(),
    )
    assert (recorded.format, recorded.row_count, recorded.directory) == (
        "trl_sft",
        len(rows),
        str(tmp_path / "set"),
    )
    assert len(ids) < len(lines)  # the turns of a dialogue stand behind its later rows, too
    assert sorted(map(str, ids)) == sorted({line["evaluation_id"] for line in lines})
    assert {row["evaluation_id"] for row in rows} <= set(map(str, ids))


def test_detectors_and_versions_are_in_the_manifest(filled: Database, tmp_path: Path) -> None:
    manifest = make(filled, tmp_path / "set", context="wrong")
    assert manifest["detectors"] == dataset_seed.DETECTORS
    assert manifest["policies"] == ["kernelbench@2"]
    assert manifest["hardware"] == [
        {"device_class": "cpu", "device_name": "Test CPU", "rows": CORRECT_AND_CLEAN}
    ]


def test_the_card_says_what_the_rows_are(filled: Database, tmp_path: Path) -> None:
    manifest = make(filled, tmp_path / "set", "backend in (triton)")
    card = (tmp_path / "set" / "README.md").read_text()
    assert card.startswith("---\npretty_name: ")
    front = dict(line.split(": ", 1) for line in card.split("---")[1].strip().splitlines())
    info = json.loads(front["dataset_info"])[0]
    assert [feature["name"] for feature in info["features"]][:2] == ["prompt", "completion"]
    assert info["features"][0]["list"] == [
        {"name": "role", "dtype": "string"},
        {"name": "content", "dtype": "string"},
    ]
    assert sum(split["num_examples"] for split in info["splits"]) == manifest["rows"]
    assert manifest["content_sha256"] in json.loads(front["configs"])[0]["description"]
    for piece in (
        "    backend in (triton)\n",
        "| where | 54 |",
        "Test CPU",
        "say nothing about speed on a GPU",
    ):
        assert piece in card
    for piece in ("The last answer of a row bears loss", "(`context`: `clean`): right and clean."):
        assert piece in card
