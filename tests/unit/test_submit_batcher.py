"""Submissions that share a turn share its transaction, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from app import enqueue
from app.domain.request import RequestError
from app.store.postgres.database import DatabaseUnavailableError
from app.web.submit_batcher import SubmitBatcher


def together(batcher: SubmitBatcher, *submissions: Sequence[Any]) -> list[Future[Any]]:
    """Answers to submissions that came while a turn was under way."""
    with ThreadPoolExecutor() as pool, batcher._turn:
        answers = [pool.submit(batcher.accept, each) for each in submissions]
        while len(batcher._waiting) < len(submissions):
            time.sleep(0.001)
        batcher._turn.release()
        time.sleep(0.1)
        batcher._turn.acquire()
    return answers


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """Requests of each transaction.  'bad' is refused by the tables, 'down' meets a
    database that is away.
    """
    found: list[list[Any]] = []

    def accept(_database: Any, _broker: Any, requests: Sequence[Any], **_: Any) -> list[Any]:
        found.append(list(requests))
        if "bad" in requests:
            raise RequestError("too long")
        if "down" in requests:
            raise DatabaseUnavailableError("away")
        return [f"receipt of {each}" for each in requests]

    monkeypatch.setattr(enqueue, "check", lambda *_: None)
    monkeypatch.setattr(enqueue, "accept", accept)
    return found


def test_a_refused_submission_refuses_no_other_of_its_turn(turns: list[list[Any]]) -> None:
    good, bad, more = together(SubmitBatcher(None, None), ["a", "b"], ["bad"], ["c"])
    assert good.result() == ["receipt of a", "receipt of b"]
    assert more.result() == ["receipt of c"]
    assert isinstance(bad.exception(), RequestError)
    assert turns == [["a", "b", "bad", "c"], ["a", "b"], ["bad"], ["c"]]


def test_a_database_that_is_away_is_not_asked_again_for_each(turns: list[list[Any]]) -> None:
    answers = together(SubmitBatcher(None, None), ["a"], ["down"], ["b"])
    assert all(isinstance(each.exception(), DatabaseUnavailableError) for each in answers)
    assert len(turns) == 1
