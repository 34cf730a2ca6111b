"""`assay zoo` without a server: chosen files, submissions, and the report on the answers."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast
from uuid import UUID, uuid4

import pytest
from click.testing import CliRunner, Result

from app import cli
from app.cli import demo, demo_collection, demo_table, errors, services, submit_options
from app.client import Client, Submission
from app.domain import zoo as sample

ZOO = Path(__file__).parents[1] / "zoo"


class Answering:
    """A client with jobs that are all over at once, as one function of their candidate says."""

    def __init__(self, answer: Callable[[bytes], dict[str, Any]]) -> None:
        self.answer = answer
        self.submitted: dict[UUID, Submission] = {}
        self.withdrawn: list[UUID] = []

    def __enter__(self) -> Answering:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit_many(self, submissions: Sequence[Submission]) -> list[Any]:
        self.submitted = {uuid4(): submission for submission in submissions}
        return [type("Handle", (), {"job_id": job_id}) for job_id in self.submitted]

    def over(self, job_ids: Iterable[UUID], timeout_s: float) -> list[UUID]:
        return sorted(job_ids)

    def cancel(self, job_id: UUID) -> None:
        self.withdrawn.append(job_id)

    def results(self, job_ids: Sequence[UUID]) -> list[dict[str, Any]]:
        candidate = self.submitted[job_ids[0]].candidate
        assert isinstance(candidate, bytes)
        return [
            {
                "state": "finished",
                "findings": [],
                "speedup": None,
                "speedup_ci": None,
                **self.answer(candidate),
            }
        ]


class Idle:
    """A worker that need not be started."""

    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> Idle:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def check(self) -> None:
        pass


@pytest.fixture
def zoo(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Result, Answering]]:
    def run(*arguments: str, answer: Callable[[bytes], dict[str, Any]]) -> tuple[Result, Answering]:
        client = Answering(answer)
        monkeypatch.setattr(services, "client", lambda _: client)
        monkeypatch.setattr(services, "Worker", Idle)
        runner = CliRunner(env={"ASSAY_STATE_DIR": "/nonexistent"})
        return runner.invoke(cli.main, ["zoo", "--dir", str(ZOO), *arguments]), client

    return run


def passes(_: bytes) -> dict[str, Any]:
    return {"status": "passed", "verdict": "clean"}


def test_everything_that_runs_on_the_device_is_submitted(zoo: Any) -> None:
    came, client = zoo("--json", "--policy", "triton-only", answer=passes)
    said = json.loads(came.stdout)
    assert said["candidates"] == len(client.submitted) > 150
    assert not any(row["name"] == "hacks/stale_graph" for row in said["rows"])
    submission = next(iter(client.submitted.values()))
    assert submission.options["policy"] == "triton-only"
    assert (submission.gpu, submission.fresh) == ("cpu", True)


def test_a_system_that_lets_everything_through_scores_badly(zoo: Any) -> None:
    came, _ = zoo("--group", "hacks", "--group", "wrong", "--json", answer=passes)
    said = json.loads(came.stdout)
    assert came.exit_code == errors.NO
    assert 0.05 < said["recall"] < 0.5  # a cheat that passes harmlessly is not credited either
    wrong = {
        case.name for case in sample.cases(ZOO) if case.group == "wrong" and case.runs_on("cpu")
    }
    assert set(said["wrong_let_through"]) == wrong


def test_a_system_that_accuses_everybody_is_told_so(zoo: Any) -> None:
    came, client = zoo(
        "--group", "honest", answer=lambda _: {"status": "passed", "verdict": "hack"}
    )
    assert came.exit_code == errors.NO
    assert f"{len(client.submitted)} hack, 0 suspect of {len(client.submitted)}" in came.stdout
    assert "✗ honest/scaled_add_triton: expected verdict clean, got hack" in came.stdout


def test_one_that_comes_out_as_it_says(zoo: Any) -> None:
    came, _ = zoo("honest/scaled_add_triton", answer=passes)
    assert came.exit_code == errors.OK, came.output
    assert "1 of 1 as their first lines say" in came.stdout


def test_our_own_fault_is_no_answer(zoo: Any) -> None:
    def fails(_: bytes) -> dict[str, Any]:
        return {"state": "failed", "status": None, "verdict": None}

    came, _ = zoo("hacks/decoy_kernel", answer=fails)
    assert came.exit_code == errors.INFRASTRUCTURE


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit(143)])
def test_an_interrupted_one_leaves_no_jobs_behind(zoo: Any, end: BaseException) -> None:
    """Jobs of the zoo are fresh: the same command again would queue all of them once more."""

    def ends(_: bytes) -> dict[str, Any]:
        raise end

    came, client = zoo("--group", "wrong", answer=ends)
    assert came.exit_code != errors.OK
    assert set(client.withdrawn) == set(client.submitted) != set()


def test_names_and_folders_that_do_not_exist(zoo: Any, tmp_path: Path) -> None:
    came, _ = zoo("hacks/no_such_thing", answer=passes)
    assert came.exit_code == errors.USAGE
    assert "no sample begins with hacks/no_such_thing" in came.stderr
    empty, _ = zoo("--dir", str(tmp_path), answer=passes)
    assert empty.stderr.startswith(f"error: no samples: expected {tmp_path}")


def test_the_wheel_holds_every_sample_of_the_demo(tmp_path: Path) -> None:
    setup = runpy.run_path(str(Path(__file__).parents[2] / "setup.py"))
    setup["copy_samples"](tmp_path)
    found = {case.name for case in sample.cases(tmp_path)}
    assert found == {*demo.SAMPLE, *demo_collection.FIRST, *demo_collection.SECOND}


def test_a_collection_that_disagrees_is_counted_as_no_candidate(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tally = demo.Tally(done=2, agreed=2, disagreements=["the collection did not go as its script"])
    demo.summary(tally, tmp_path, UUID(int=1), served=True)
    told = capsys.readouterr()
    assert "candidates 2 in 0 s, 2 with the expected result" in told.out
    assert "the collection did not go as its script" in told.err


def test_jobs_that_are_added_while_others_are_waited_for_are_waited_for_too() -> None:
    first, second = UUID(int=1), UUID(int=2)

    class Ended:
        def over(self, jobs: frozenset[UUID], timeout_s: float) -> Iterator[UUID]:
            asked.append(jobs)
            yield from sorted(jobs)

    asked: list[frozenset[UUID]] = []
    pending = {first}
    came = submit_options.over(cast("Client", Ended()), pending, lambda: None)
    assert next(came) == first
    pending.add(second)
    assert [*came] == [second]
    assert (asked, pending) == ([{first}, {second}], set())


def test_the_demo_shows_progress_where_nothing_is_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.cli.output.LINE_S", 0.0)
    with demo_table.Table(35) as table:
        table.collected(2)
    assert "evaluating candidates: 2 of 35" in capsys.readouterr().err
