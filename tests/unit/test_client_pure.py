"""The Python interface without a service: what it says of bad input, and after it was closed."""

from __future__ import annotations

from dataclasses import fields
from typing import get_type_hints
from uuid import uuid4

import pytest

from app.client import Client, ClosedError, RequestError
from app.client.submission import as_options, as_submission, as_turn
from app.client.transport import as_id
from app.domain import result
from app.domain.job import JobOptions, JobState
from app.domain.trajectory import Message, Turn


def test_a_misspelt_option_says_which_there_are() -> None:
    with pytest.raises(RequestError, match=r"unknown timeing_budget_s; expected some of baseline, .*timing_budget_s"):
        as_options({"timeing_budget_s": 1})
    assert all(each.name for each in fields(JobOptions))
    with pytest.raises(RequestError, match=r"submission: unknown kandidate; expected some of reference, candidate"):
        as_submission({"reference": "r", "kandidate": "c"})
    with pytest.raises(RequestError, match=r"\(timing_budget_s inside `options`\)"):
        as_submission({"reference": "r", "candidate": "c", "timing_budget_s": 1})
    with pytest.raises(RequestError, match=r"unknown options; .* \(each an argument of its own\)"):
        as_options({"options": {}})
    with pytest.raises(RequestError, match="candidate"):
        as_submission({"reference": "r"})


def test_turns_may_be_mappings() -> None:
    given = {"response": "r", "messages": [{"role": "user", "content": "u"}]}
    assert as_turn(given) == Turn(messages=(Message(role="user", content="u"),), response="r", candidate=None)
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
