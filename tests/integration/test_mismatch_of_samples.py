"""Mismatch and profiling-based rejection go by the samples of a collection, whatever their prompts
show: of rows and of advantages alike.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from app.domain.collection.call import ModelAnswer, ModelRequest
from app.embedded import Services
from app.settings import Settings
from tests.integration import exported
from tests.integration.cli import assay
from tests.integration.collecting import CODE, opened, said, specification

ROLLOUT = (-0.5, -0.25, -1.0)
WINDOWED = {"name": "windowed", "samples": 2, "turns": 2, "iterations": 2, "window": 1}
OPTIONS = ("--similarity", "none", "--context", "any", "--val-fraction", "0")


@pytest.fixture(scope="module")
def settings(services: Services) -> Iterator[Settings]:
    """A collection `c` of two samples of three right answers, each in two trajectories."""
    numbers = count()

    def model(_: ModelRequest) -> ModelAnswer:
        return said(
            CODE.replace("passes", f"passes {next(numbers)}\nimport triton"),
            prompt_token_ids=(1, 2),
            token_ids=(3, 4, 5),
            logprobs=ROLLOUT,
            logprobs_mode="processed",
        )

    with opened(services, model) as (site, settings):
        site.start(specification(name="c", strategy=WINDOWED))
        site.run()
        assert len(site.rows("trajectories")) == 4
        yield settings


def turns_of(settings: Settings, *options: object) -> list[dict[str, Any]]:
    """Turns in the order of lines and steps."""
    ran = assay(settings, "advantages", "--run", "c", "--json", *map(str, options))
    assert ran.exit_code == 0, ran.output
    turns: list[dict[str, Any]] = json.loads(ran.stdout)["turns"]
    return sorted(turns, key=lambda one: (one["line"], one["step"]))


def scored(settings: Settings, folder: Path, *, last: float, leave_out: int | None = None) -> Path:
    """The trainer's file: both engines agree but for one token of the last turn of the first line;
    without the turn at a place.
    """
    file = folder / "trainer.jsonl"
    shifts = [0.0, 0.0, last, 0.0, 0.0, 0.0]
    rows = [
        {"turn_id": one["turn_id"], "logprobs": [ROLLOUT[0] + shift, *ROLLOUT[1:]]}
        for one, shift in zip(turns_of(settings), shifts, strict=True)
    ]
    kept = [row for place, row in enumerate(rows) if place != leave_out]
    file.write_text("".join(json.dumps(row) + "\n" for row in kept))
    return file


def rows_of(settings: Settings, out: Path, *options: object) -> set[str]:
    """Evaluations of the rows of a dataset."""
    ran = assay(settings, "export", "--out", str(out), *OPTIONS, *map(str, options))
    assert ran.exit_code == 0, ran.output
    return {row["evaluation_id"] for row in exported.rows_in(out)}


@pytest.mark.parametrize("level", ["geometric", "sequence", "turn_geo"])
def test_rows_and_advantages_leave_out_the_same_turns(
    settings: Settings, tmp_path: Path, level: str
) -> None:
    file = scored(settings, tmp_path, last=-0.05)
    rows = rows_of(settings, tmp_path / "sft", "--mrs", file, "--mrs-level", level)
    turns = turns_of(settings, "--mrs", file, "--mrs-level", level, "--keep-uniform")
    left_out = [one["dropped"] == "mismatch" for one in turns]
    of_turn = level == "turn_geo"
    assert left_out == [not of_turn, not of_turn, True, False, False, False]
    assert rows == {one["evaluation_id"] for one in turns if one["dropped"] != "mismatch"}


def test_a_turn_of_another_window_without_log_probabilities_is_told(
    settings: Settings, tmp_path: Path
) -> None:
    file = scored(settings, tmp_path, last=0.0, leave_out=2)
    out = tmp_path / "sft"
    ran = assay(settings, "export", "--out", str(out), *OPTIONS, "--mrs", str(file))
    told = " ".join(ran.output.split())
    assert "for all 6 turns, got them for 3" in told
    assert "2 have turns beside them in their trajectory or sample that lack either" in told
    assert len(rows_of(settings, out, "--mrs", file, "--mrs-partial")) == 6
    [decided] = out.glob("decisions-*.parquet")
    assert "mrs" not in set(pq.read_table(decided)["stage"].to_pylist())


@pytest.mark.parametrize("seed", range(3))
def test_a_sample_has_one_draw_and_one_mean_coverage(
    settings: Settings, tmp_path: Path, seed: int
) -> None:
    """Every turn covers 0.9 of its time: each sample stays with a chance of one half, whole."""
    options = ("--prs", "soft", "--prs-tau", 0.85, "--prs-scale", 0.1, "--seed", seed)
    together = ("--prs-draw", "trajectory", "--prs-ratio", "geometric", "--dry-run", "--json")
    ran = assay(settings, "export", *OPTIONS, *map(str, (*options, *together)))
    assert ran.exit_code == 0, ran.output
    left = {one["stage"]: one["rows"] for one in json.loads(ran.stdout)["stages"]}
    assert left["mrs" if "mrs" in left else "benchmarks"] == 6
    assert left["prs"] in (0, 3, 6)
