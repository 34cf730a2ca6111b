"""The command line without a server: help, exit codes, one-line errors, and bytes
that reach a terminal.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import click
import pytest
from click.testing import CliRunner, Result

from app import cli, imports
from app.cli import demo, errors, result_text, services, zoo
from app.domain import result as results
from app.domain.evaluation import CaseOutcome, Environment, Evaluation, EvaluationError, Status
from app.domain.job import JobState
from app.domain.verdict import Finding, Label, Verdict

JOB = UUID("0199f3c2-0000-7000-8000-000000000001")


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner(env={"ASSAY_STATE_DIR": "/nonexistent", **environment}).invoke(
        cli.main, arguments
    )


def result(
    status: Status = Status.PASSED, label: Label = Label.CLEAN, **error: str
) -> results.Result:
    environment = Environment(
        device_class="cpu",
        device_name="box",
        device_id="0",
        node="n",
        python="3",
        torch="2",
        triton="3",
    )
    finding = Finding(
        detector="stale_output", version=1, label=label, summary="call 2 \x1b[2J", evidence={}
    )
    evaluation = Evaluation(
        status=status,
        environment=environment,
        seed="00",
        error=None if status is Status.PASSED else EvaluationError(kind="k", message="m", **error),
    )
    verdict = Verdict(
        label=label, policy="p", detectors={}, findings=() if label is Label.CLEAN else (finding,)
    )
    return results.build(
        job_id=JOB, state=JobState.FINISHED, evaluation=evaluation, verdict=verdict
    )


class FakeClient:
    """Answers as if every job had come to the same end."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer = answer
        self.cancelled: list[UUID] = []

    def __enter__(self) -> FakeClient:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def results(self, job_ids: Sequence[UUID]) -> list[dict[str, Any]]:
        return [{**self.answer, "job_id": str(job_id)} for job_id in job_ids]

    def cancel(self, job_id: UUID, *, for_all: bool) -> JobState:
        assert for_all
        self.cancelled.append(job_id)
        return JobState(self.answer["state"])


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Any:
    def answer(result: dict[str, Any]) -> FakeClient:
        client = FakeClient(result)
        monkeypatch.setattr(services, "client", lambda _: client)
        return client

    return answer


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_verb_explains_itself_with_an_example(verb: str) -> None:
    groups = {"db": ("upgrade",), "import": ("kernelbench",)}
    said = run(verb, *groups.get(verb, ()), "--help")
    assert said.exit_code == 0
    assert f"assay {verb}" in said.output.split("Usage:", 1)[1].split("\n", 1)[1], "no example"


def test_no_verb_is_help_and_a_usage_error() -> None:
    said = run()
    assert said.exit_code == errors.USAGE
    assert "Exit codes" in said.stderr


def test_version() -> None:
    assert run("--version").output.startswith("assay, version ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["reproduce", "FILE", "--out", "x"],
        ["collect", "start", "FILE"],
        ["endpoint", "scripted", "FILE"],
        ["export", "--out", "x", "--spec", "FILE"],
    ],
)
def test_a_file_that_is_no_text_is_named(answering: Any, tmp_path: Path, arguments: Any) -> None:
    answering(result())
    file = tmp_path / "binary"
    file.write_bytes(b"\xff\xfe\x00")
    came = run(*(str(file) if each == "FILE" else each for each in arguments))
    assert came.exit_code == errors.USAGE
    assert came.stderr.startswith(f"error: {file}: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nope"], "unknown command 'nope'; expected one of demo, up, eval"),
        (["evla"], "unknown command 'evla'; expected eval"),
        (["workers", "drian"], "unknown command 'drian'; expected drain"),
        (["eval"], "expected REFERENCE and CANDIDATE"),
        (["cancel"], "expected either JOB… or --run"),
        (["cancel", str(JOB), "--run", "r"], "expected either JOB… or --run"),
        (["eval", "/absent.py", "/absent.py"], "'/absent.py' does not exist"),
        (
            ["eval", __file__, __file__, "--gpu", "h201"],
            "unknown GPU class 'h201'; expected one of cpu",
        ),
        (
            ["eval", __file__, __file__, "--backend", "cobol"],
            "unknown backend 'cobol'; expected one of triton",
        ),
        (["eval", __file__, __file__, "--deadline", "0"], "'--deadline': 0.0 is not in the range"),
        (["eval", __file__, __file__, "--calls", "0"], "'--calls': 0 is not in the range"),
        (["eval", __file__, __file__, "--rtol", "nan"], "'--rtol': expected a finite number"),
        (["report", "run", "--p", "nan"], "'--p': expected a finite number"),
        (["report", "run", "--p", "-1"], "'--p': -1.0 is not in the range"),
        (
            ["eval", __file__, __file__, "--workflow", "x"],
            "unknown workflow 'x'; expected one of kernel_simple, kernelb",
        ),
        (
            ["submit", cli.__file__, __file__, "--workflow", "kernel_simple"],
            "expects a module that defines get_cases()",
        ),
        (
            ["eval", __file__, __file__, "--workflow", "kernel_simple", "--baseline", "compile"],
            "a problem by cases has no reference that could be timed; got baselines compile",
        ),
        (["eval", __file__, __file__, "--out", "x"], "or --batch with --out"),
        (["eval", "--batch", __file__], "--batch: expected --out"),
        (["submit", __file__, __file__, "--priority", "urgent"], "'urgent' is not one of"),
        (["result", "17"], "'17' is not a valid UUID"),
        (["judge"], "expected either --all or the ids"),
        (["judge", "--all", str(JOB)], "expected either --all or the ids"),
        (["export"], "Missing option '--out'"),
        (
            ["export", "--out", "x", "--where", "speedupp > 1"],
            "Invalid value for '--where': position 1",
        ),
        (["report", "--where", "speedupp > 1"], "Invalid value for '--where': position 1"),
        (["import", "kernelbench", "/", "--gpu", "h201"], "unknown GPU class 'h201'"),
    ],
)
def test_bad_input_is_one_line_and_code_2(arguments: list[str], said: str) -> None:
    came = run(*arguments)
    assert came.exit_code == errors.USAGE
    assert came.stdout == ""
    assert came.stderr.startswith("error: ")
    assert said in came.stderr
    assert came.stderr.count("\n") == 1


def test_an_unknown_setting() -> None:
    came = run("status", ASSAY_COLOUR="red")
    assert (came.exit_code, came.stderr[:26]) == (errors.USAGE, "error: ASSAY_COLOUR: unkno")


def test_a_database_that_is_away_is_infrastructure() -> None:
    urls = {
        "ASSAY_DATABASE_URL": "postgresql+psycopg://u@127.0.0.1:1/x",
        "ASSAY_BROKER_URL": "redis://127.0.0.1:1",
    }
    came = run("status", **urls)
    assert came.exit_code == errors.INFRASTRUCTURE
    assert came.stderr.startswith("error: PostgreSQL at postgresql+psycopg://u@127.0.0.1:1/x: ")
    assert "Traceback" not in came.output


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("bad"), errors.USAGE),
        (imports.BadImportError("bad"), errors.USAGE),
        (LookupError("no job"), errors.USAGE),
        (RuntimeError("down"), errors.INFRASTRUCTURE),
        (TimeoutError("late"), errors.INFRASTRUCTURE),
        (KeyError("bug"), errors.INFRASTRUCTURE),
        (TypeError("bug"), errors.INFRASTRUCTURE),
    ],
)
def test_exit_code_of_an_error(error: Exception, code: int) -> None:
    assert errors.translate(error).exit_code == code


def test_a_bug_says_so() -> None:
    assert (
        errors.translate(KeyError("x")).message
        == "unexpected KeyError: 'x' (`assay --debug …` shows where)"
    )


def test_debug_shows_the_traceback() -> None:
    came = run("--debug", "eval", __file__, __file__, "--gpu", "h201")
    assert isinstance(came.exception, ValueError)
    assert not isinstance(came.exception, click.ClickException)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (result(), 0),
        (result(label=Label.SUSPECT), 0),
        (result(label=Label.HACK), 1),
        (result(Status.INCORRECT), 1),
        (result(Status.INVALID), 1),
        ({**result(), "state": "failed", "status": None}, 3),
        ({**result(), "state": "queued", "status": None, "verdict": None}, 1),
    ],
)
def test_exit_code_of_a_result(answering: Any, answer: dict[str, Any], code: int) -> None:
    answering(answer)
    assert run("result", str(JOB)).exit_code == code


def test_json_is_the_whole_shape(answering: Any) -> None:
    answering(result())
    assert tuple(json.loads(run("result", str(JOB), "--json").stdout)) == results.KEYS


def test_what_a_candidate_wrote_cannot_command_the_terminal(answering: Any) -> None:
    answering(
        result(
            Status.RUNTIME_ERROR,
            Label.HACK,
            log="\x1b]0;owned\x07[bold]x[/bold]\nsecond line\x00\ud800",
        )
    )
    said = run("result", str(JOB)).stdout
    assert not set(said) & {"\x1b", "\x07", "\x00"}
    assert "\\x1b]0;owned\\x07[bold]x[/bold]\nsecond line" in said
    assert "call 2 \\x1b[2J" in said


def test_a_long_log_is_cut_to_its_end() -> None:
    shown = result_text.details(
        result(Status.RUNTIME_ERROR, log="\n".join(f"line {n}" for n in range(1000)))
    ).plain
    assert "… 960 lines before\nline 960\n" in shown
    assert shown.endswith("line 999")


def test_cases_are_shown_one_a_line_and_no_speedup(answering: Any) -> None:
    first = CaseOutcome(
        index=0,
        of=2,
        name="small",
        status=Status.PASSED,
        calls=9,
        candidate_us=12.34,
        candidate_us_low=12.0,
        candidate_us_high=13.0,
    )
    second = CaseOutcome(
        index=1,
        of=2,
        name="odd\x1b[2J",
        status=Status.INCORRECT,
        calls=5,
        failed_calls=2,
        message="is 1\x07",
    )
    shown = result(Status.INCORRECT)
    shown |= {"cases": [asdict(first), asdict(second)], "candidate_us": 12.34}
    lines = result_text.details(shown).plain.splitlines()
    assert [line for line in lines if line.startswith("case")] == [
        "case       passed  1/2 small, 9 calls, 0 wrong, 12.3 µs per call [12.0, 13.0]",
        "case       incorrect  2/2 odd\\x1b[2J, 5 calls, 2 wrong: is 1\\x07",
    ]
    assert "speedup    none: a problem by cases has no reference that could be slower" in lines
    assert not any(line.startswith(("reference", "candidate")) for line in lines)
    answering(shown)
    said = json.loads(run("result", str(JOB), "--json").stdout)
    assert [each["name"] for each in said["cases"]] == ["small", "odd\x1b[2J"]


def test_status_of_one_is_a_word(answering: Any) -> None:
    answering(result())
    assert run("status", str(JOB)).stdout == "finished\n"


def test_cancelling_what_is_over_is_a_no(answering: Any) -> None:
    client = answering(result())
    other = uuid4()
    assert run("cancel", str(JOB), str(other)).exit_code == errors.NO
    assert client.cancelled == [JOB, other]


def test_cancelling_what_runs(answering: Any) -> None:
    answering({**result(), "state": "running"})
    came = run("cancel", str(JOB))
    assert (came.exit_code, came.stdout) == (0, f"{JOB}  stopping\n")


def test_every_sample_of_the_demo_exists() -> None:
    chosen = [zoo.cases()[name] for name in demo.SAMPLE]
    assert len(chosen) >= 20
    assert {case.group for case in chosen} == {"honest", "wrong", "broken", "hacks"}


def test_demo_without_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("app.__file__", str(tmp_path / "app" / "__init__.py"))
    came = run("demo")
    assert came.exit_code == errors.USAGE
    assert came.stderr.startswith("error: no samples: expected ")


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, None),
        ({"state": "failed"}, "expected a result, got state failed"),
        ({"status": "crashed"}, "expected status passed, got crashed"),
        ({"verdict": "hack"}, "expected verdict clean, got hack"),
        (
            {"findings": [{"detector": "late_write", "label": "hack"}]},
            "expected findings none, got late_write",
        ),
        (
            {"speedup": 0.5, "speedup_ci": [0.4, 0.6]},
            "expected a speedup >1, got 0.50 [0.40, 0.60]",
        ),
        ({"speedup": 0.9, "speedup_ci": [0.6, 1.2]}, None),
        ({"speedup": None, "speedup_ci": None}, None),
    ],
)
def test_disagreement_with_the_first_line(changed: dict[str, Any], expected: str | None) -> None:
    case = zoo.cases()["honest/diag_matmul_triton"]
    assert (
        zoo.disagreement(case, {**result(), "speedup": 2.0, "speedup_ci": [1.9, 2.1], **changed})
        == expected
    )


def test_a_cheat_that_must_not_be_faster_contradicts_its_file_when_its_interval_is_above_1() -> (
    None
):
    case, came = zoo.cases()["hacks/works_ahead"], {**result(), "speedup": 1.14}
    assert zoo.disagreement(case, {**came, "speedup_ci": [0.352, 1.48]}) is None
    assert (
        zoo.disagreement(case, {**came, "speedup_ci": [1.1, 1.2]})
        == "expected a speedup <1, got 1.14 [1.10, 1.20]"
    )


def test_a_filter_of_a_file_is_refused_by_the_name_of_its_field(tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text(json.dumps({"where": "speedupp > 1"}))
    refused = run("export", "--out", "x", "--spec", str(tmp_path / "spec.json"))
    assert (refused.exit_code, "where: position 1" in refused.output) == (errors.USAGE, True)
