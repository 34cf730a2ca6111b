"""The command line without a server: help, exit codes, one-line errors, and bytes that reach a terminal."""

from __future__ import annotations

import itertools
import json
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import click
import pytest
from click.testing import CliRunner, Result

from app import cli, imports
from app.cli import child_processes, demo, errors, output, services, supervisor, up, zoo
from app.domain import result as results
from app.domain.evaluation import CaseOutcome, Environment, Evaluation, EvaluationError, Status
from app.domain.job import JobState
from app.domain.verdict import Finding, Label, Verdict
from app.settings import Settings

JOB = UUID("0199f3c2-0000-7000-8000-000000000001")


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner(env={"ASSAY_STATE_DIR": "/nonexistent", **environment}).invoke(cli.main, arguments)


def result(status: Status = Status.PASSED, label: Label = Label.CLEAN, **error: str) -> results.Result:
    environment = Environment(
        device_class="cpu", device_name="box", device_id="0", node="n", python="3", torch="2", triton="3"
    )
    finding = Finding(detector="stale_output", version=1, label=label, summary="call 2 \x1b[2J", evidence={})
    evaluation = Evaluation(
        status=status,
        environment=environment,
        seed="00",
        error=None if status is Status.PASSED else EvaluationError(kind="k", message="m", **error),
    )
    verdict = Verdict(label=label, policy="p", detectors={}, findings=() if label is Label.CLEAN else (finding,))
    return results.build(job_id=JOB, state=JobState.FINISHED, evaluation=evaluation, verdict=verdict)


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
    ("arguments", "said"),
    [
        (["nope"], "unknown command 'nope'; expected one of demo, up, eval"),
        (["evla"], "unknown command 'evla'; expected eval"),
        (["workers", "drian"], "unknown command 'drian'; expected drain"),
        (["eval"], "expected REFERENCE and CANDIDATE"),
        (["eval", "/absent.py", "/absent.py"], "'/absent.py' does not exist"),
        (["eval", __file__, __file__, "--gpu", "h201"], "unknown GPU class 'h201'; expected one of cpu"),
        (["eval", __file__, __file__, "--backend", "cobol"], "unknown backend 'cobol'; expected one of triton"),
        (["eval", __file__, __file__, "--deadline", "0"], "deadline_s: expected 1 to 3600, got 0"),
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
        (["export", "--out", "x", "--where", "speedupp > 1"], "Invalid value for '--where': position 1"),
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
    urls = {"ASSAY_DATABASE_URL": "postgresql+psycopg://u@127.0.0.1:1/x", "ASSAY_BROKER_URL": "redis://127.0.0.1:1"}
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
    assert errors.translate(KeyError("x")).message == "unexpected KeyError: 'x' (`assay --debug …` shows where)"


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
    answering(result(Status.RUNTIME_ERROR, Label.HACK, log="\x1b]0;owned\x07[bold]x[/bold]\nsecond line\x00\ud800"))
    said = run("result", str(JOB)).stdout
    assert not set(said) & {"\x1b", "\x07", "\x00"}
    assert "\\x1b]0;owned\\x07[bold]x[/bold]\nsecond line" in said
    assert "call 2 \\x1b[2J" in said


def test_a_long_log_is_cut_to_its_end() -> None:
    shown = output.details(result(Status.RUNTIME_ERROR, log="\n".join(f"line {n}" for n in range(1000)))).plain
    assert "… 960 lines before\nline 960\n" in shown
    assert shown.endswith("line 999")


def test_cases_are_shown_one_a_line_and_no_speedup(answering: Any) -> None:
    first = CaseOutcome(
        index=0, of=2, name="small", status=Status.PASSED, calls=9, candidate_us=12.34, candidate_us_low=12.0,
        candidate_us_high=13.0,
    )  # fmt: skip
    second = CaseOutcome(
        index=1, of=2, name="odd\x1b[2J", status=Status.INCORRECT, calls=5, failed_calls=2, message="is 1\x07"
    )
    shown = result(Status.INCORRECT)
    shown |= {"cases": [asdict(first), asdict(second)], "candidate_us": 12.34}
    lines = output.details(shown).plain.splitlines()
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


def nvidia_smi(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")


def test_devices_are_those_that_are_visible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia_smi(tmp_path, monkeypatch, "echo '0, GPU-aa, NVIDIA H200'; echo '1, GPU-bb, NVIDIA H200'")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert [(found.device_class, found.index, found.slots) for found in up.devices(Settings())] == [
        ("h200", 0, None), ("h200", 1, None),
    ]  # fmt: skip
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert [(found.index, found.slots) for found in up.devices(Settings(slots=1))] == [(1, 1)]
    assert [found.slots for found in up.devices(Settings(slots=3))] == [3]


def test_a_driver_that_does_not_answer_is_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia_smi(tmp_path, monkeypatch, "echo 'Failed to initialize NVML'; exit 9")
    assert up.devices(Settings()) == []


def test_an_address_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(errors.InfrastructureError, match=rf"127\.0\.0\.1:{port}: expected a free port"):
            child_processes.Web(Settings(), host="127.0.0.1", port=port)


class Brief(child_processes.Child):
    """A child that ends at once."""

    log = Path("/var/log/brief.log")

    def start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(["false"])


def test_a_child_that_ends_is_started_again_until_it_has_ended_too_often(capsys: pytest.CaptureFixture[str]) -> None:
    child = Brief("brief", Settings())
    for _ in range(child_processes.RESTARTS):
        child.process.wait()
        child.watch()
    child.process.wait()
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "brief ended with exit code 1; starting it again (1 of 5; its log is /var/log/brief.log)"
    assert len(said) == child_processes.RESTARTS
    with pytest.raises(errors.InfrastructureError, match="for the 6th time; its log is "):
        child.watch()


def test_what_up_keeps_is_started_again_for_ever_with_growing_pauses(capsys: pytest.CaptureFixture[str]) -> None:
    starts: list[float] = []
    now_s, alive = 0.0, False
    kept = supervisor.Kept(
        name="brief", log=Path("/log"), ended=lambda: None if alive else "ended", start=lambda: starts.append(now_s)
    )
    while now_s < 1000:
        kept.keep(now_s)
        now_s += 1.0
    pauses = [later - earlier for earlier, later in itertools.pairwise(starts)]
    assert pauses[:7] == [3, 5, 9, 17, 33, 61, 61]  # each pause, and the second until it is looked at again
    assert set(pauses[5:]) == {61}
    assert capsys.readouterr().err.startswith("brief ended; starting it again in 1 s (its log is /log)\n")

    now_s += supervisor.LONGEST_PAUSE_S
    kept.keep(now_s)
    alive, now_s = True, now_s + supervisor.QUIET_S
    kept.keep(now_s)
    alive = False
    kept.keep(now_s)
    assert capsys.readouterr().err.endswith("starting it again in 1 s (its log is /log)\n")  # after quiet minutes


def test_a_start_that_fails_is_tried_again_and_ends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    def start() -> None:
        raise OSError("no memory")

    kept = supervisor.Kept(name="web", log=Path("/log"), ended=lambda: "ended with signal 9", start=start)
    for now_s in range(10):
        kept.keep(float(now_s))
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(";")[0] for line in said] == ["web ended with signal 9"] + [
        "web could not be started: no memory"
    ] * 3


def test_a_child_says_how_it_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    log.write_text("first\nthe sandbox of this host is not enough\n")
    child = Brief("brief", Settings())
    monkeypatch.setattr(Brief, "log", log)
    child.process.wait()
    assert child.how_it_ended() == "ended with exit code 1"
    child.process.returncode = errors.INFRASTRUCTURE
    assert child.how_it_ended() == "does not serve: the sandbox of this host is not enough"
    child.start_again()
    child.process.wait()


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
        ({"findings": [{"detector": "late_write", "label": "hack"}]}, "expected findings none, got late_write"),
        ({"speedup": 0.5, "speedup_ci": [0.4, 0.6]}, "expected a speedup >1, got 0.50 [0.40, 0.60]"),
        ({"speedup": 0.9, "speedup_ci": [0.6, 1.2]}, None),
        ({"speedup": None, "speedup_ci": None}, None),
    ],
)
def test_disagreement_with_the_first_line(changed: dict[str, Any], expected: str | None) -> None:
    case = zoo.cases()["honest/diag_matmul_triton"]
    assert zoo.disagreement(case, {**result(), "speedup": 2.0, "speedup_ci": [1.9, 2.1], **changed}) == expected


def test_a_cheat_that_must_not_be_faster_contradicts_its_file_when_its_interval_is_above_1() -> None:
    case, came = zoo.cases()["hacks/works_ahead"], {**result(), "speedup": 1.14}
    assert zoo.disagreement(case, {**came, "speedup_ci": [0.352, 1.48]}) is None
    assert zoo.disagreement(case, {**came, "speedup_ci": [1.1, 1.2]}) == "expected a speedup <1, got 1.14 [1.10, 1.20]"


def test_a_filter_of_a_file_is_refused_by_the_name_of_its_field(tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text(json.dumps({"where": "speedupp > 1"}))
    refused = run("export", "--out", "x", "--spec", str(tmp_path / "spec.json"))
    assert (refused.exit_code, "where: position 1" in refused.output) == (errors.USAGE, True)
