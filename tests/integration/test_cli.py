"""The command line on real servers.  Each exit code, a traceback and a signal with processes, as
users start them; the other commands in this process, which saves a second for each.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest
import sqlalchemy as sa

from app.domain import result as results
from app.settings import Settings
from app.store import tables
from app.store.evaluation import evaluations
from app.store.postgres.database import Database
from tests.integration import cli, dataset_seed, fakes
from tests.integration.cli import ASSAY, environment
from tests.waiting import LIMIT_S, until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def assay(settings: Settings) -> Run:
    """`assay(*arguments)`: runs to its end in this process, on the test's servers."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        words = [str(each) for each in arguments]
        came = cli.assay(settings, *words)
        return subprocess.CompletedProcess(words, came.exit_code, came.stdout, came.stderr)

    return run


@pytest.fixture
def started(settings: Settings) -> Run:
    """The same, in a process of its own."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [ASSAY, *map(str, arguments)]
        return subprocess.run(
            command,
            env=environment(settings),
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )

    return run


@pytest.fixture
def worker(start_worker: Callable[..., Popen[bytes]], assay: Run) -> Popen[bytes]:
    """A worker that only pretends; see fake_worker."""
    worker = start_worker(module=fakes.WORKER)
    until(lambda: "online" in assay("workers").stdout)
    return worker


@pytest.fixture
def files(tmp_path: Path) -> Callable[[str], tuple[Path, Path]]:
    """`files(behaviour)`: a reference, and a candidate with which the pretending
    worker behaves so.
    """

    def make(behaviour: str) -> tuple[Path, Path]:
        reference, candidate = (
            tmp_path / "reference.py",
            tmp_path / f"{behaviour.replace(' ', '_')}.py",
        )
        reference.write_text("class Model: ...")
        candidate.write_text(behaviour)
        return reference, candidate

    return make


def test_a_job_from_submission_to_result(assay: Run, files: Any, worker: Popen[bytes]) -> None:
    submitted = assay("submit", *files("wrong"), "--backend", "torch")
    job_id = submitted.stdout.strip()
    assert (submitted.returncode, submitted.stderr) == (0, "")
    came = assay("result", job_id, "--wait", 60, "--json")
    assert came.returncode == 1
    answer = json.loads(came.stdout)
    assert tuple(answer) == results.KEYS
    assert (answer["job_id"], answer["state"], answer["status"]) == (
        job_id,
        "finished",
        "incorrect",
    )
    assert "wrong_output: expected 1, got 2" in assay("result", job_id).stdout
    assert assay("status", job_id).stdout == "finished\n"
    assert json.loads(assay("status", "--json").stdout)["finished"] == 1
    assert assay("submit", *files("wrong"), "--backend", "torch").stdout.strip() == job_id
    assert (
        assay("submit", *files("wrong"), "--backend", "torch", "--fresh").stdout.strip() != job_id
    )
    assert assay("cancel", job_id).returncode == 1


def test_a_problem_by_cases_from_submission_to_result(
    assay: Run, files: Any, worker: Popen[bytes]
) -> None:
    reference, candidate = files("wrong")
    reference.write_text(fakes.CASES)
    came = assay("eval", reference, candidate, "--workflow", "kernel_simple")
    assert (came.returncode, came.stderr) == (1, "")
    assert "1/2 small, 9 calls, 0 wrong, 1500.0 µs per call [1250.0, 1750.0]" in came.stdout
    assert "2/2 negative, 5 calls, 2 wrong: expected 1, got 2\\x1b[2J" in came.stdout


def test_a_job_without_a_worker_waits_and_can_be_cancelled(started: Run, files: Any) -> None:
    submitted = started("submit", *files("wrong"), "--gpu", "h200")
    job_id = submitted.stdout.strip()
    assert submitted.stderr == "note: no worker for 'h200' is online; the job waits for one\n"
    assert started("result", job_id, "--wait", 0.2, "--json").returncode == 1
    assert started("cancel", job_id).stdout == f"{job_id}  cancelled\n"
    assert json.loads(started("status", job_id, "--json").stdout) == {job_id: "cancelled"}


def test_all_jobs_of_a_run_are_cancelled(assay: Run, files: Any) -> None:
    reference, candidate = files("wrong")
    for number in range(2):
        candidate.write_text(f"{candidate.read_text()}\n# {number}")
        assay("submit", reference, candidate, "--gpu", "h200", "--run", "mine")
    other = assay("submit", reference, candidate, "--gpu", "a100").stdout.strip()
    assert assay("cancel", "--run", "mine").stdout == "2 cancelled\n"
    assert assay("cancel", "--run", "mine").stdout == "no job waits or runs\n"
    assert assay("status", other).stdout == "queued\n"
    missing = assay("cancel", "--run", "other")
    assert (missing.returncode, missing.stderr) == (2, "error: no run is named 'other'\n")


def test_a_job_that_does_not_exist(started: Run) -> None:
    missing = "0199f3c2-0000-7000-8000-000000000000"
    for verb in ("status", "result", "cancel"):
        came = started(verb, missing)
        assert (came.returncode, came.stderr) == (2, f"error: no job {missing}\n")


def test_eval_without_a_worker_says_so(assay: Run, files: Any) -> None:
    came = assay("eval", *files("wrong"))
    assert came.returncode == 3
    assert came.stderr.startswith("error: no worker for 'cpu' is online")


def test_eval_without_redis_says_so(settings: Settings, files: Any) -> None:
    away = replace(settings, broker_url="redis://127.0.0.1:1/0")
    came = subprocess.run(
        [ASSAY, "eval", *files("wrong")],
        env=environment(away),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert came.returncode == 3
    assert came.stderr == "error: Redis: Error 111 connecting to 127.0.0.1:1. Connection refused.\n"


def test_eval_and_our_own_fault(assay: Run, files: Any, worker: Popen[bytes]) -> None:
    assert assay("eval", *files("wrong"), "--json").returncode == 1
    came = assay("eval", *files("fault"), "--json")
    assert came.returncode == 3
    assert json.loads(came.stdout)["state"] == "failed"
    assert json.loads(came.stdout)["valid"] is False


def test_a_batch_that_is_interrupted_goes_on(
    assay: Run,
    settings: Settings,
    database: Database,
    files: Any,
    tmp_path: Path,
    worker: Popen[bytes],
) -> None:
    cases, out = tmp_path / "cases.jsonl", tmp_path / "results.jsonl"
    log = tmp_path / "log"
    for name, what in (
        ("a", f"log {log} a"),
        ("b", f"log {log} b\nslow 60"),
        ("c", f"log {log} c"),
    ):
        (tmp_path / f"{name}.py").write_text(what)
    reference, _ = files("wrong")
    lines = [{"id": name, "reference": reference.name, "candidate": f"{name}.py"} for name in "abc"]
    cases.write_text("".join(json.dumps(line) + "\n" for line in lines))
    running = Popen(
        [ASSAY, "eval", "--batch", str(cases), "--out", str(out)], env=environment(settings)
    )
    until(lambda: log.exists() and "b" in log.read_text() and bool(out.read_text()))
    running.send_signal(signal.SIGINT)
    assert running.wait(LIMIT_S) == 130
    assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == ["a"]
    (tmp_path / "b.py").write_text(f"log {log} quick")
    with database.begin() as connection:
        still = connection.execute(
            sa.select(tables.jobs.c.job_id).where(tables.jobs.c.state == "running")
        ).scalar_one()
    assay("cancel", still)
    came = assay("eval", "--batch", cases, "--out", out)
    assert came.returncode == 0, came.stderr
    assert "3 cases (1 there already): 3 incorrect" in came.stdout
    assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == ["a", "b", "c"]
    assert sorted(log.read_text().split()) == ["a", "b", "c", "quick"]


def test_export_and_verify(assay: Run, database: Database, tmp_path: Path) -> None:
    dataset_seed.fill(database)
    folder = tmp_path / "sft"
    made = assay("export", "--out", folder, "--where", "speedup_ci_low>1.1")
    assert made.returncode == 0, made.stderr
    assert str(folder) in made.stdout
    assert assay("verify", folder).returncode == 0
    with next(folder.rglob("*.parquet")).open("ab") as file:
        file.write(b"more")
    spoilt = assay("verify", folder, "--json")
    assert spoilt.returncode == 1
    assert json.loads(spoilt.stdout)["problems"]
    taken = assay("export", "--out", folder)
    assert taken.returncode == 2
    assert "datasets are never written over" in taken.stderr
    wrong = assay("export", "--out", tmp_path / "x", "--where", "speedupp > 1")
    assert wrong.returncode == 2
    assert "speedup" in wrong.stderr


def test_judging_again_changes_what_came_out_differently(
    assay: Run, database: Database, files: Any, worker: Popen[bytes]
) -> None:
    assert assay("eval", *files("wrong")).returncode == 1
    stored = next(evaluations.iterate(database))
    with database.begin() as connection:
        evaluations.add_verdict(connection, stored.evaluation_id, fakes.hack())
    planned = json.loads(assay("judge", "--all", "--dry-run", "--json").stdout)
    assert (planned["judged"], planned["changed"], planned["failed"], planned["dry_run"]) == (
        1,
        1,
        0,
        True,
    )
    (change,) = planned["changes"]
    assert (change["evaluation_id"], change["before"], change["after"]) == (
        str(stored.evaluation_id),
        "hack",
        "clean",
    )
    came = assay("judge", stored.evaluation_id).stdout
    assert "hack → clean" in came
    assert came.endswith(
        "1 judged under kernelbench@2, 1 verdicts changed, 1 of them to another label\n"
    )
    assert json.loads(assay("judge", "--all", "--json").stdout)["changed"] == 0


def test_evaluations_that_cannot_be_judged_are_named_and_the_others_judged(
    assay: Run, started: Run, database: Database
) -> None:
    dataset_seed.fill(database)  # says that candidates passed without any verified call
    came = assay("judge", "--all")
    assert came.returncode == 3
    named = [
        line
        for line in came.stderr.splitlines()
        if re.match(r"error: evaluation [0-9a-f-]{36}: \w+Error: ", line)
    ]
    judged = sum(status != "passed" for status in stored_statuses(database))
    assert len(named) == len(stored_statuses(database)) - judged > 0
    counts = (
        f"{judged} judged under kernelbench@2, 0 verdicts changed, {len(named)} could not be judged"
    )
    assert counts in came.stdout
    answer = json.loads(assay("judge", "--all", "--json").stdout)
    assert (answer["judged"], answer["failed"], len(answer["failures"])) == (
        judged,
        len(named),
        len(named),
    )
    assert "Traceback" in started("--debug", "judge", "--all").stderr


def stored_statuses(database: Database) -> list[str]:
    return [str(stored.evaluation.status) for stored in evaluations.iterate(database)]


def test_import_and_database(assay: Run, tmp_path: Path) -> None:
    assert assay("db", "upgrade").returncode == 0
    level = tmp_path / "KernelBench" / "level1"
    level.mkdir(parents=True)
    (level / "1_Square.py").write_text(
        "class Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n"
    )
    first = assay("import", "kernelbench", tmp_path, "--json")
    assert first.returncode == 0, first.stderr
    assert json.loads(first.stdout) == {
        "problems": 1,
        "runs": 0,
        "samples": 0,
        "new_samples": 0,
        "bad": [],
    }
    empty = assay("import", "kernelbench", ROOT / "app")
    assert empty.returncode == 2
    assert empty.stderr.startswith("error: ")
