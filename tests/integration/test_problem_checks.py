"""`assay problems check`: a made checkout on the CPU device, through the queue, a
real worker, the page and the CLI.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from app import cli, enqueue
from app.domain import kernelbench, problem_check
from app.domain.job import JobOptions
from app.domain.problem import Problem
from app.domain.request import Request, RequestError
from app.settings import Settings
from app.store import tables
from app.store.postgres.database import Database
from app.store.trajectory import checks
from app.web import create_app
from tests.waiting import until

Start = Callable[..., Popen[bytes]]

HONEST = """
import torch
class Model(torch.nn.Module):
    def __init__(self, width):
        super(Model, self).__init__()
        self.linear = torch.nn.Linear(width, width)
    def forward(self, x): return torch.relu(self.linear(x))
def get_inputs(): return [torch.randn(64, 64)]
def get_init_inputs(): return [64]
"""
RANDOM = HONEST.replace("torch.relu(self.linear(x))", "torch.rand_like(x)")
BEYOND_INTERPRETER = "import nowhere_to_be_found\n" + HONEST


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for level, name, text in (
        (1, "1_honest", HONEST),
        (1, "2_random", RANDOM),
        (2, "1_lacks", BEYOND_INTERPRETER),
    ):
        path = tmp_path / "KernelBench" / f"level{level}" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def run(settings: Settings, *arguments: str, verb: str = "check") -> Any:
    environment = {
        name: value for name, value in settings.to_env().items() if name != "ASSAY_SLOTS"
    }
    return CliRunner(env=environment).invoke(cli.main, ["problems", verb, *arguments])


def count(database: Database, table: sa.Table) -> int:
    with database.begin() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()


def test_every_problem_is_evaluated_against_itself_and_counts_among_no_attempts(
    settings: Settings, database: Database, start_worker: Start, checkout: Path
) -> None:
    start_worker()
    until(lambda: count(database, tables.devices))
    done = run(settings, "--from", str(checkout), "--timing-budget", "0.02", "--json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    outcomes = {row["name"]: (row["outcome"], row["error_kind"]) for row in said["rows"]}
    assert outcomes == {
        "1_honest": ("passed", None),
        "2_random": ("invalid", "reference_failed"),
        "1_lacks": ("invalid", "reference_failed"),
    }
    assert "needs the package 'nowhere_to_be_found'" in said["rows"][2]["error"]
    assert said["summary"]["problems"] == 3
    assert said["summary"]["clean"] == said["summary"]["timed"] == 1
    assert [
        count(database, table) for table in (tables.problem_checks, tables.evaluations, tables.jobs)
    ] == [3, 0, 3]

    again = run(
        settings, "--source-set", kernelbench.SOURCE_SET, "--level", "1", "--timing-budget", "0.02"
    )
    assert again.exit_code == 0, again.output
    assert count(database, tables.jobs) == 3  # a known problem is not asked again
    assert "1_honest" in again.stdout
    assert "2 problems: 1 passed and clean of 1 passed" in again.stdout
    assert "1 × invalid: reference_failed" in again.stdout

    (checkout / "KernelBench/level1/3_half.py").write_text("class Model: ...")
    partly = run(settings, "--from", str(checkout), "--level", "1", "--timing-budget", "0.02")
    assert (partly.exit_code, count(database, tables.jobs)) == (2, 3)
    assert "2 problems: 1 passed and clean of 1 passed" in partly.stdout
    assert "3_half.py: expected a problem that defines get_inputs" in partly.stderr.replace(
        "\n", ""
    )

    with database.begin() as connection:
        problem_id = connection.execute(
            sa.select(tables.problems.c.problem_id).where(tables.problems.c.name == "1_honest")
        ).scalar_one()
        [check] = checks.of_problem(connection, problem_id)
    assert (check.device_class, check.row.outcome, check.row.level) == ("cpu", "passed", 1)
    assert check.row.memory is not None
    assert check.row.memory.input_bytes == check.row.memory.output_bytes == 64 * 64 * 4
    assert check.row.memory.parameter_bytes == (64 * 64 + 64) * 4
    shown = CliRunner(env=settings.to_env()).invoke(cli.main, ["result", str(check.job_id)])
    assert (shown.exit_code, "passed: L1/1_honest" in shown.stdout) == (0, True), shown.output
    app = create_app(settings)
    try:
        site = app.test_client()
        assert "Checks of the problem" in site.get(f"/problems/{problem_id}").text
        assert "A check of the problem against itself" in site.get(f"/jobs/{check.job_id}").text
    finally:
        app.extensions["assay"]["database"].dispose()


def test_what_is_refused(
    settings: Settings, database: Database, checkout: Path, tmp_path: Path
) -> None:
    assert run(settings).exit_code == 2
    assert "expected problems to check, found none" in run(settings, "--source-set", "none").output
    assert (
        "expected KernelBench/level1"
        in run(settings, "--from", str(tmp_path / "KernelBench" / "level1")).output
    )
    half = tmp_path / "own"
    half.mkdir()
    (half / "half.py").write_text("class Model: ...")
    assert (
        "half.py: expected a problem that defines get_inputs"
        in run(settings, "--from", str(half)).output
    )
    problem = Problem(name="x", reference=HONEST.encode())
    own = Request(problem=problem, candidate=b"", backend="torch", options=JobOptions(check=True))
    given = Request(problem=problem, candidate=b"x", backend="torch", workflow="problem_check")
    cases = Request(
        problem=Problem(name="x", reference=b"def get_cases(): ..."),
        candidate=None,
        workflow="problem_check",
    )
    for request, says in (
        (own, "options.check"),
        (given, "expected none, got source"),
        (cases, "cases alone"),
    ):
        with pytest.raises(RequestError, match=says):
            enqueue.check(database, [request])


def test_a_sweep_without_the_queue_is_recorded_and_a_newer_check_stays(
    settings: Settings, database: Database, checkout: Path, tmp_path: Path
) -> None:
    problem = Problem(name="1_honest", reference=HONEST.encode(), level=1)
    row = problem_check.fault(problem, "k", "m")
    mine = replace(
        row, reference_sha256=problem.reference_sha256, status="passed", error_kind=None, error=None
    )
    other = replace(row, reference_sha256="0" * 64)
    device = {"device_class": "h100", "device_name": "NVIDIA H100"}
    for day, seconds in ((2, 1.0), (1, 9.0)):  # the second file is older
        report = {
            "environment": device,
            "protocol": "p",
            "checked_at": f"2026-01-0{day}T00:00:00+00:00",
            "rows": [asdict(replace(mine, seconds=seconds)), asdict(other)],
        }
        file = tmp_path / f"{day}.json"
        file.write_text(json.dumps(report))
        said = run(settings, str(file), "--from", str(checkout), "--json", verb="record")
        assert json.loads(said.stdout) == {"rows": 2, "known": 1, "unknown": 1}
    with database.begin() as connection:
        problem_id = connection.execute(
            sa.select(tables.problems.c.problem_id).where(tables.problems.c.name == "1_honest")
        ).scalar_one()
        [check] = checks.of_problem(connection, problem_id)
    assert (check.device_class, check.job_id, check.row.seconds) == ("h100", None, 1.0)
    file.write_text('{"rows": []}')
    refused = run(settings, str(file), verb="record")
    assert refused.exit_code == 2
    assert (
        "expected the output of tests.bench.sweep --json: KeyError: 'environment'" in refused.output
    )


def test_a_job_that_failed_is_our_fault(database: Database) -> None:
    problem = Problem(name="x", reference=HONEST.encode(), level=1)
    request = Request(problem=problem, candidate=None, backend="torch", workflow="problem_check")
    with database.begin() as connection:
        [job_id] = enqueue.store(connection, [request])
        connection.execute(
            sa.update(tables.jobs).values(
                state="failed", error_kind="infrastructure", error_message="no device"
            )
        )
        row = checks.of_jobs(connection, [job_id])[job_id]
    assert row.outcome == "our fault"
    assert row.error == "infrastructure: no device"
