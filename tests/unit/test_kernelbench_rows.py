"""Rows in the layout of KernelBench's result files."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from app import formats
from tests.unit.test_formats import FACTS, dialogue


def results_of(*facts: Any) -> dict[str, Any]:
    layout: Any = formats.BUILTIN["kernelbench_results"]
    rows = [layout.render(replace(dialogue(), facts=one)) for one in facts]
    return layout.assemble(rows)


def test_kernelbench_results_are_numbered_by_problem_and_count_no_hack() -> None:
    good, hack = (FACTS._replace(verdict=label) for label in ("clean", "hack"))
    [document] = results_of(good, hack).values()
    assert [(one["sample_id"], one["correctness"], one["runtime"]) for one in document["19"]] == [
        (0, True, 0.001),
        (1, False, -1.0),
    ]


def test_answers_without_code_stand_with_the_other_answers_of_their_run() -> None:
    measured = FACTS._replace(run="a", level=1, device_class="h200")
    silent = measured._replace(
        level=2, device_class=None, status="no_code", evaluation_id=None, verdict=None
    )
    assert set(results_of(measured, silent)) == {
        "runs/a/level1-h200/eval_results.json",
        "runs/a/level2-h200/eval_results.json",
    }


def test_kernelbench_results_have_a_file_for_each_run_and_level_and_keep_sample_numbers() -> None:
    def of(run: str, level: int, sample: str | None) -> Any:
        return FACTS._replace(run=run, level=level, sample=sample, device_class="h200")

    found = results_of(
        of("a", 1, "level_1_problem_19_sample_2"),
        of("a", 1, "level_1_problem_19_sample_10"),
        of("a", 1, None),
        of("a", 2, "level_2_problem_19_sample_0"),
        of("../b", 1, None),
    )
    named = {path: [one["sample_id"] for one in document["19"]] for path, document in found.items()}
    odd = next(path for path in named if "b-" in path)
    assert named.pop(odd) == [0]
    assert ".." not in odd
    assert named == {
        "runs/a/level1-h200/eval_results.json": [0, 2, 10],
        "runs/a/level2-h200/eval_results.json": [0],
    }
