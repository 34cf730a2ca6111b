"""Batches without a server: good lines and bad ones, order, and going on from where it stopped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from click.testing import CliRunner, Result

from app import cli, enqueue
from app.cli import batch as batch_file
from app.cli import errors, services
from app.client import Submission
from app.domain.request import MissingError, Request


class FakeClient:
    """Evaluates nothing; jobs end in the reverse order of their submission, which is
    the worst for a file in order.
    """

    database = None

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.states: dict[str, str] = {}
        """Candidate → state other than finished."""
        self.breaks_after: int | None = None
        self._jobs: dict[UUID, str] = {}

    def submit_many(self, submissions: list[Submission]) -> list[Any]:
        names = [submission.request().candidate.decode() for submission in submissions]
        self.asked += names
        known = {name: uuid4() for name in dict.fromkeys(names)}
        self._jobs |= {job_id: name for name, job_id in known.items()}
        return [type("Handle", (), {"job_id": known[name]}) for name in names]

    def over(self, job_ids: list[UUID], timeout_s: float) -> Iterator[UUID]:
        ended = [job_id for job_id in reversed(list(self._jobs)) if job_id in job_ids]
        for number, job_id in enumerate(ended):
            if number == self.breaks_after:
                raise KeyboardInterrupt
            yield job_id

    def results(self, job_ids: list[UUID]) -> list[dict[str, Any]]:
        states = [self.states.get(self._jobs[job_id], "finished") for job_id in job_ids]
        return [
            {
                "state": state,
                "status": "passed" if state == "finished" else None,
                "said": self._jobs[job_id],
            }
            for job_id, state in zip(job_ids, states, strict=True)
        ]


class Batch:
    """A folder with cases and a client that pretends."""

    def __init__(self, folder: Path, client: FakeClient) -> None:
        self.folder = folder
        self.client = client
        self.out = folder / "results.jsonl"
        (folder / "ref.py").write_text("class Model: ...")

    def write(self, *lines: object) -> None:
        """Lines of cases.jsonl: text as it is, anything else as JSON; the candidates
        that are named are made.
        """
        for line in lines:
            if (
                isinstance(line, dict)
                and isinstance(line.get("candidate"), str)
                and line["candidate"] != "absent.py"
            ):
                (self.folder / line["candidate"]).write_text(line["candidate"])
        text = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        (self.folder / "cases.jsonl").write_text("".join(f"{line}\n" for line in text))

    def run(self, *arguments: str) -> Result:
        self.client.asked.clear()
        command = [
            "eval",
            "--batch",
            str(self.folder / "cases.jsonl"),
            "--out",
            str(self.out),
            *arguments,
        ]
        return CliRunner().invoke(cli.main, command)

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.read_text().splitlines()]


@pytest.fixture
def batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Batch:
    client = FakeClient()

    def worker(*_: object) -> AbstractContextManager[Any]:
        return nullcontext(type("Worker", (), {"check": staticmethod(lambda: None)}))

    monkeypatch.setattr(services, "client", lambda _: nullcontext(client))

    def check(_: object, requests: list[Request]) -> None:
        if requests[0].device == "absent":
            raise MissingError("unknown device 'absent'")

    monkeypatch.setattr(services, "Worker", worker)
    monkeypatch.setattr(enqueue, "check", check)
    return Batch(tmp_path, client)


def case(name: str, **fields: object) -> dict[str, object]:
    return {
        "id": name,
        "reference": "ref.py",
        "candidate": f"{name}.py",
        "backend": "torch",
        **fields,
    }


def test_results_come_in_the_order_of_the_cases(batch: Batch) -> None:
    batch.write(case("a"), case("b"), "", case("c", candidate="a.py"))
    came = batch.run()
    assert came.exit_code == 0
    assert [(row["id"], row["said"]) for row in batch.rows] == [
        ("a", "a.py"),
        ("b", "b.py"),
        ("c", "a.py"),
    ]
    assert "3 cases (0 there already): 3 passed" in came.stdout


def test_bad_lines_are_named_by_number_and_stop_nothing(batch: Batch) -> None:
    batch.write(
        case("a"),
        "{",
        [1],
        {"id": "x", "reference": "ref.py"},
        case("d", colour="red"),
        case("e", backend="cobol"),
        case("f", gpu="h201"),
        case("g", candidate="absent.py"),
        case("h", priority=3),
        case("a"),
        "[" * 100_000,
        f'{{"id": "k", "reference": "ref.py", "candidate": {"[" * 900 + "]" * 900}}}',
        case("i"),
    )
    came = batch.run()
    assert came.exit_code == errors.USAGE
    assert [row["id"] for row in batch.rows] == ["a", "i"]
    said = came.stderr.splitlines()
    assert [line.split(":")[2] for line in said] == [str(number) for number in range(2, 13)]
    for line, expected in zip(
        said,
        (
            "expected one JSON object",
            "expected an object with id, reference, candidate, got list",
            "candidate missing",
            "unknown field colour",
            "unknown backend 'cobol'",
            "unknown GPU class 'h201'",
            "candidate: expected a file, found none",
            "priority: expected a string, got 3",
            "id 'a' was already on line 1",
            "expected one JSON object, got brackets nested too deep",
            "candidate: expected a string, got list",
        ),
        strict=True,
    ):
        assert expected in line


def test_what_is_there_is_not_asked_for_again(batch: Batch) -> None:
    batch.write(case("a"), case("b"))
    batch.run()
    before = batch.out.read_bytes()
    came = batch.run()
    assert came.exit_code == 0
    assert batch.client.asked == []
    assert batch.out.read_bytes() == before
    batch.write(case("new"), case("a"), case("b"))
    batch.run()
    assert batch.client.asked == ["new.py"]
    assert [row["id"] for row in batch.rows] == ["new", "a", "b"]


def test_a_changed_candidate_is_evaluated_again(batch: Batch) -> None:
    batch.write(case("a"), case("b"))
    batch.run()
    (batch.folder / "a.py").write_text("changed")
    batch.run()
    assert batch.client.asked == ["changed"]
    assert [(row["id"], row["said"]) for row in batch.rows] == [("a", "changed"), ("b", "b.py")]


def test_fresh_evaluates_everything_again(batch: Batch) -> None:
    batch.write(case("a"), case("b"))
    batch.run()
    batch.run("--fresh")
    assert batch.client.asked == ["a.py", "b.py"]
    assert [row["id"] for row in batch.rows] == ["a", "b"]


def test_our_own_faults_are_tried_again(batch: Batch) -> None:
    batch.write(case("a"), case("b"))
    batch.client.states["a.py"] = "failed"
    assert batch.run().exit_code == errors.INFRASTRUCTURE
    assert [row["state"] for row in batch.rows] == ["failed", "finished"]
    batch.client.states.clear()
    assert batch.run().exit_code == 0
    assert batch.client.asked == ["a.py"]
    assert [row["state"] for row in batch.rows] == ["finished", "finished"]


def test_an_interrupted_run_leaves_a_readable_file_and_goes_on(batch: Batch) -> None:
    batch.write(case("a"), case("b"), case("c"))
    batch.client.breaks_after = 2
    came = batch.run()
    assert came.exit_code == 130
    assert [row["id"] for row in batch.rows] == []  # a comes last, and holds the others back
    batch.out.write_text(json.dumps({"id": "a", "state": "queued"}) + "\n" + '{"id": "b", "torn')
    batch.client.breaks_after = None
    assert batch.run().exit_code == 0
    assert [row["id"] for row in batch.rows] == ["a", "b", "c"]


@pytest.mark.parametrize("text", ["hello\n", "[]\n", "{}\n"])
def test_a_file_that_holds_something_else_is_left_alone(batch: Batch, text: str) -> None:
    batch.write(case("a"))
    batch.out.write_text(text)
    came = batch.run()
    assert came.exit_code == errors.USAGE
    assert "results.jsonl:1: expected a result of this command" in came.stderr
    assert batch.out.read_text() == text


def test_results_of_other_cases_are_left_alone(batch: Batch) -> None:
    batch.write(case("a"))
    batch.run()
    batch.write(case("b"))
    came = batch.run()
    assert came.exit_code == errors.USAGE
    assert "has results of other cases (a): name another --out" in came.stderr
    assert [row["id"] for row in batch.rows] == ["a"]


def test_a_line_may_choose_the_workflow(batch: Batch) -> None:
    (batch.folder / "cases.py").write_text("def get_cases(): ...")
    simple = {"reference": "cases.py", "workflow": "kernel_simple"}
    batch.write(
        case("a"),
        case("b", **simple),
        case("c", workflow="kernel_simple"),
        case("d", workflow="magic"),
    )
    came = batch.run()
    assert came.exit_code == errors.USAGE
    assert (
        "3: reference: the workflow 'kernel_simple' expects a module that defines get_cases()"
        in came.stderr
    )
    assert "4: unknown workflow 'magic'; expected one of kernel_simple, kernelbench" in came.stderr
    assert [row.get("workflow", "as usual") for row in batch.rows] == ["as usual", "kernel_simple"]
    batch.write(case("a"), case("b", **simple))
    batch.run()
    assert batch.client.asked == [], "stored results are good"
    batch.write(case("a", reference="cases.py"), case("b", reference="cases.py"))
    batch.run()
    assert batch.client.asked == ["a.py", "b.py"], "the same files, read as something else"
    batch.run("--workflow", "kernel_simple")
    assert [row.get("workflow") for row in batch.rows] == ["kernel_simple"] * 2


def test_a_line_may_choose_a_device_and_a_run(batch: Batch) -> None:
    batch.write(case("a", device="here.1", run="mine", gpu="h200"))
    tally = batch_file.Tally()
    [found] = batch_file.read(
        batch.folder / "cases.jsonl", {"device": "there", "gpu": "cpu"}, tally
    )
    chosen = found.submission
    assert (chosen.device, chosen.run, chosen.gpu, tally.bad_lines) == (
        "here.1",
        "mine",
        "h200",
        [],
    )


def test_json_counts(batch: Batch) -> None:
    batch.write(case("a"), "{", case("b"))
    said = json.loads(batch.run("--json").stdout)
    assert (said["cases"], said["statuses"], len(said["bad_lines"])) == (2, {"passed": 2}, 1)


def test_a_result_of_other_options_is_no_result_of_a_case(batch: Batch) -> None:
    batch.write(case("a"), case("b", device="box.1"))
    batch.run()
    assert ["options" in row for row in batch.rows] == [False, False]
    assert [row.get("device") for row in batch.rows] == [None, "box.1"]
    for options in (["--policy", "triton-only"], ["--baseline", "compile"], []):
        for asked in (["a.py", "b.py"], []):  # the same again has its results
            assert batch.run(*options).exit_code == 0
            assert batch.client.asked == asked
    batch.write(case("a"), case("b", device="box.2"))
    batch.run()
    assert batch.client.asked == ["b.py"]


def test_the_result_of_a_line_that_cannot_be_read_now_stays(batch: Batch) -> None:
    batch.write(case("a"), case("b"), case("c"))
    batch.run()
    before = batch.out.read_bytes()
    (batch.folder / "b.py").unlink()
    assert batch.run().exit_code == errors.USAGE
    assert batch.out.read_bytes() == before
    batch.write(case("b"))
    batch.write(case("a"), case("b"), case("c"))
    batch.run()
    assert batch.client.asked == []


def test_cases_without_a_worker_hold_up_no_others(
    batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = services.Worker

    def worker(settings: object, client: object, device_class: str) -> object:
        if device_class == "h200":
            raise services.NoWorkerError("no worker for 'h200' is online")
        return served(settings, client, device_class)  # type: ignore[arg-type]  # a fake

    monkeypatch.setattr(services, "Worker", worker)
    batch.write(case("a"), case("b", gpu="h200"), case("c"))
    came = batch.run()
    assert came.exit_code == errors.INFRASTRUCTURE
    assert "error: 1 cases: no worker for 'h200' is online" in came.stderr
    assert "2 passed; 1 without a worker" in came.stdout
    assert [row["id"] for row in batch.rows] == ["a", "c"]
    monkeypatch.setattr(services, "Worker", served)
    assert batch.run().exit_code == 0
    assert batch.client.asked == ["b.py"]
    assert [row["id"] for row in batch.rows] == ["a", "b", "c"]


def test_a_batch_of_bad_lines_alone_names_them_and_makes_the_folder_of_its_results(
    batch: Batch,
) -> None:
    batch.out = batch.folder / "new" / "results.jsonl"
    batch.write("{")
    ran = batch.run()
    assert (ran.exit_code, batch.rows) == (errors.USAGE, [])
    assert "1 bad lines" in ran.stdout


def test_an_unknown_device_is_the_fault_of_its_line(batch: Batch) -> None:
    batch.write(case("a"), case("b", device="absent"), case("c", device="here"))
    ran = batch.run()
    assert ran.exit_code == errors.USAGE
    assert "cases.jsonl:2: unknown device 'absent'" in ran.stderr
    assert [row["id"] for row in batch.rows] == ["a", "c"]
    assert "2 cases (0 there already): 2 passed; 1 bad lines" in ran.stdout
