"""The Python interface without a service: its errors on bad input, and after it was closed."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints
from uuid import UUID, uuid4

import pytest

from app.client import Client, ClosedError, JobHandle, RequestError
from app.client.progress_bar import Bar
from app.client.submission import as_bytes, as_options, as_submission, as_turn
from app.client.transport import as_id
from app.domain import result
from app.domain.job import JobOptions, JobState
from app.domain.trajectory import Message, Run, Turn


def test_a_misspelt_option_says_which_there_are() -> None:
    with pytest.raises(
        RequestError,
        match=r"unknown timeing_budget_s; expected some of baseline, .*timing_budget_s",
    ):
        as_options({"timeing_budget_s": 1})
    assert all(each.name for each in fields(JobOptions))
    with pytest.raises(
        RequestError, match=r"submission: unknown kandidate; expected some of reference, candidate"
    ):
        as_submission({"reference": "r", "kandidate": "c"})
    with pytest.raises(RequestError, match=r"\(timing_budget_s inside `options`\)"):
        as_submission({"reference": "r", "candidate": "c", "timing_budget_s": 1})
    with pytest.raises(RequestError, match=r"unknown options; .* \(each an argument of its own\)"):
        as_options({"options": {}})
    with pytest.raises(RequestError, match="candidate"):
        as_submission({"reference": "r"})


@pytest.mark.parametrize("given", ["problems/softmax.py", "softmax.py\n", Path("softmax.py")])
def test_a_path_in_place_of_a_source_is_refused(given: Any) -> None:
    with pytest.raises(RequestError, match="content of a file"):
        as_bytes(given)


def test_a_source_is_no_path() -> None:
    for source in ("import torch  # of softmax.py", "x", "", "from a.py import b"):
        assert as_bytes(source) == source.encode()


def test_turns_may_be_mappings() -> None:
    given = {"response": "r", "messages": [{"role": "user", "content": "u"}]}
    assert as_turn(given) == Turn(
        messages=(Message(role="user", content="u"),), response="r", candidate=None
    )
    for bad in (
        {},
        {"response": "r", "answer": "a"},
        {"response": "r", "messages": ["hello"]},
        {"response": "r", "messages": 3},
    ):
        with pytest.raises(RequestError, match="turn: "):
            as_turn(bad)


def test_ids_may_be_texts() -> None:
    job_id = uuid4()
    assert as_id(str(job_id)) == as_id(job_id) == job_id
    for bad in ("job", "", None, 3):
        with pytest.raises(RequestError, match="job id: expected a UUID"):
            as_id(bad)  # type: ignore[arg-type]
    with Client(url="http://127.0.0.1:1") as client:
        with pytest.raises(RequestError, match="trajectory id: expected a UUID, got '1'"):
            client.get_trajectory("1")
        with pytest.raises(RequestError, match="problem id: expected a UUID, got '1'"):
            client.problem("1")


def test_a_closed_client_does_nothing_more() -> None:
    client = Client(url="http://127.0.0.1:1")
    client.close()
    client.close()
    for ask in (
        lambda: client.submit(reference="r", candidate="c"),
        lambda: client.results([uuid4()]),
        lambda: client.cancel(uuid4()),
        lambda: list(client.over([uuid4()])),
    ):
        with pytest.raises(ClosedError):
            ask()


def test_the_type_of_a_result_has_its_keys() -> None:
    built = result.build(job_id=uuid4(), state=JobState.QUEUED, evaluation=None, verdict=None)
    assert tuple(get_type_hints(result.Result)) == result.KEYS
    assert set(built) == set(result.KEYS)


class EndsInPairs:
    """A transport with jobs that end two at a time, the last ones first."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def over(self, job_ids: Sequence[UUID], timeout_s: float | None) -> Iterator[list[UUID]]:
        left = list(dict.fromkeys(job_ids))
        while left:
            yield [left.pop() for _ in range(min(2, len(left)))]
        if timeout_s is not None:
            raise TimeoutError("not over")

    def results(self, job_ids: Sequence[UUID]) -> list[dict[str, Any]]:
        self.asked.append(len(job_ids))
        return [{"job_id": str(each)} for each in job_ids]


@pytest.fixture
def pairs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    with Client(url="http://127.0.0.1:1") as client, monkeypatch.context() as patch:
        patch.setattr(client, "_opened", EndsInPairs())
        yield client


def test_every_handle_comes_with_its_result(
    pairs: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = [uuid4() for _ in range(5)]
    handles = [JobHandle(pairs, each) for each in [*ids, ids[0]]]
    came = list(pairs.as_completed(iter(handles), progress=True))
    assert {handle for handle, _ in came} == set(handles), "two handles of one job are two"
    assert all(str(handle.job_id) == result["job_id"] for handle, result in came)
    assert [handle.job_id for handle, _ in came] == [ids[4], ids[3], ids[2], ids[1], ids[0], ids[0]]
    transport: Any = pairs._opened
    assert transport.asked == [2, 2, 1], "one question for those that ended together"
    captured = capsys.readouterr()
    assert "0/5" in captured.err
    assert "5/5" in captured.err
    assert captured.out == ""


def test_a_timeout_keeps_what_came_before(pairs: Client) -> None:
    handle = JobHandle(pairs, uuid4())
    came = pairs.as_completed([handle], timeout_s=1)
    assert next(came)[0] is handle
    with pytest.raises(TimeoutError):
        next(came)


def test_jobs_may_be_handles(pairs: Client) -> None:
    handle = JobHandle(pairs, uuid4())
    expected = [{"job_id": str(handle.job_id)}]
    assert (
        pairs.wait([handle])
        == pairs.wait([handle.job_id])
        == pairs.results([str(handle.job_id)])
        == expected
    )
    assert list(pairs.over([handle])) == [handle.job_id]


def test_on_a_terminal_the_bar_is_drawn_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", terminal)
    with Bar(4, shown=True) as bar:
        for _ in range(4):
            bar.advance(1)
    drawn = terminal.getvalue()
    assert drawn.count("\r") == 5
    assert drawn.endswith("4/4 0:00:00\n")


def test_without_a_terminal_the_bar_is_few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.StringIO()
    monkeypatch.setattr("sys.stderr", log)
    with Bar(1_000, shown=True) as bar, Bar(1_000, shown=False) as hidden:
        for _ in range(1_000):
            bar.advance(1)
            hidden.advance(1)
    assert [line.split()[2] for line in log.getvalue().splitlines()] == ["0/1000", "1000/1000"]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("localhost:8000", "got 'localhost:8000'"),
        ("", "got ''"),
        ("ftp://host", "got 'ftp://host'"),
        ("user:secret@host", "got one with a password"),
    ],
)
def test_a_url_without_a_scheme_is_shown_as_it_was_given(url: str, shown: str) -> None:
    with pytest.raises(ValueError, match=shown) as caught:
        Client(url=url)
    assert "secret" not in str(caught.value)


def test_a_run_has_a_name_in_process_as_over_http(pairs: Client) -> None:
    said = {"reference": "r", "candidate": "c", "run": ""}
    with pytest.raises(RequestError, match="run: expected a name, or none, got ''"):
        as_submission(said).request()
    with pytest.raises(RequestError, match="run: expected a name"):
        pairs.add_run(Run(name=""))
    with pytest.raises(RequestError, match="run: expected a name"):
        pairs.submit_trajectory(reference="r", turns=[], run=Run(name=""))


@pytest.mark.parametrize("value", [math.nan, "a\0b", "\ud800"])
def test_settings_of_a_run_are_json_in_process_as_over_http(pairs: Client, value: object) -> None:
    with pytest.raises(RequestError, match=r"run\.settings\.lr"):
        pairs.add_run(Run(name="r", settings={"lr": value}))
