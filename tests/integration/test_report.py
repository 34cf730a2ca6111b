"""`assay report`: one denominator for report, pages and exports, KernelBench's
unless another is asked for.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from click.testing import CliRunner, Result

from app import cli
from app.domain import filter_language as filters
from app.domain.metric_samples import Counted
from app.domain.trajectory import Run
from app.export import export, spec_of
from app.settings import Settings
from app.store.browse import paging, runs
from app.store.figures import metric_inputs
from app.store.postgres.database import Database
from app.store.trajectory import trajectories
from app.web import run_metrics
from tests.integration import dataset_seed
from tests.integration.dataset_seed import code, evaluate, problem

ANSWERS = ["fast", "fast", "slow", "incorrect", "compile_error", "hack", "invalid", None]
"""Answers of a run, one a problem; None: without code.  KernelBench: 3 of 8 correct,
2 of 8 above 1.
"""


def fill(database: Database) -> None:
    with database.begin() as connection:
        run_id = trajectories.add_run(connection, Run(name="made", model="m"))
        for number, kind in enumerate(ANSWERS):
            of = replace(problem(number, "kernelbench"), level=1)
            stored = (
                None
                if kind is None
                else evaluate(connection, of, code(f"{number}").encode(), kind, device="h200")
            )
            [problem_id] = (
                [stored.problem_id] if stored else dataset_seed.problems.add(connection, [of])
            )
            answer = f"```python\n{code(str(number))}```" if kind else "I cannot."
            turn = dataset_seed.turn(("Write it.",), answer, stored)
            label = f"level_1_problem_{number}_sample_0"
            trajectories.add(
                connection,
                problem_id=problem_id,
                backend="triton",
                turns=[turn],
                run_id=run_id,
                label=label,
            )


def test_report_page_and_export_count_as_kernelbench_does(
    database: Database, tmp_path: Path
) -> None:
    fill(database)
    everything = filters.parse("run = made and gpu = h200")
    with database.begin() as connection:
        found = metric_inputs.attempted(connection, everything)
        evaluated = metric_inputs.attempted(connection, everything, Counted.EVALUATED)
        [run] = runs.page(connection, paging.Window(), name="made").rows
        page = run_metrics.figures(connection, run.run_id)
    assert (len(found), sum(one.outcome.correct for one in found)) == (8, 3)
    assert (len(evaluated), sum(one.outcome.correct for one in evaluated)) == (6, 3)
    assert {(one.device, one.backend) for one in found} == {("h200", "triton")}
    assert [(share.count, share.of) for share in page.lines[0].shares[:2]] == [(3, 8), (2, 8)]
    assert (run.counts.correct, run.counts.faster_than_1, run.counts.attempts) == (3, 2, 8)
    export(database, spec_of({"format": "kernelbench_results"}), tmp_path / "kb")
    results = json.loads((tmp_path / "kb/runs/made/level1-h200/eval_results.json").read_text())
    entries = [one for number in range(len(ANSWERS)) for one in results.get(str(number), [])]
    assert [entry["sample_id"] for entry in entries] == [0] * 7
    # KernelBench's fast_p (src/kernelbench/score.py): correct, and baseline /
    # runtime above p, over all problems.
    runtimes = [entry["runtime"] for entry in entries if entry["correctness"]]
    assert [sum(0.1 / runtime > p for runtime in runtimes) for p in (0.0, 1.0)] == [3, 2]


def test_the_table_is_whole_in_a_pipe_and_names_its_denominator(
    database: Database, settings: Settings
) -> None:
    fill(database)

    def command(*arguments: str) -> Result:
        return CliRunner(env=settings.to_env()).invoke(
            cli.main, list(arguments), catch_exceptions=False
        )

    unknown = command("report", "made", "mad", "e")
    assert (unknown.exit_code, "no run is named mad, e" in unknown.output) == (2, True)
    shown = command("report", "--where", "gpu = h200").output
    assert "…" not in shown
    assert "samples (kernelbench)" in shown
    assert "37.5% [" in shown
    line = next(line for line in shown.splitlines() if "run made" in line)
    assert "device h200 backend triton policy " in line
    found = json.loads(command("report", "--of", "evaluated", "--by", "run", "--json").output)
    assert (found[0]["denominator"], found[0]["fast_p"]["0"]["of"]) == ("evaluated", 6)
