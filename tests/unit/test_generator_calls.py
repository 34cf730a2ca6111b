"""The worker of an endpoint keeps as many calls in flight as it may."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from app.collect import calls
from app.domain.collection.call import EndpointConfig, ModelRequest
from app.domain.collection.outcomes import CAMPAIGN
from app.settings import Settings
from tests.waiting import until
from workers.generator import caller

MOST = 3


class Permit:
    def done(self, answer: object) -> None:
        pass


class Unlimited:
    def acquire(self, timeout_s: float) -> Permit:
        return Permit()


def a_worker(monkeypatch) -> caller.Caller:
    settings = Settings(
        database_url="postgresql+psycopg://u@h/d", broker_url="redis://h", calls=MOST
    )
    broker: Any = None
    worker = caller.Caller(settings, "e", broker)
    limiter: Any = Unlimited()
    monkeypatch.setattr(worker, "_limiter", limiter)
    return worker


def test_a_budget_without_room_takes_no_permission_from_other_collections(monkeypatch) -> None:
    told = iter([calls.NotNow.NO_BUDGET, calls.NotNow.NO_BUDGET, calls.NotNow.NOTHING_DUE])
    monkeypatch.setattr(calls, "prepare", lambda *_, **__: next(told))
    worker = a_worker(monkeypatch)
    worker.owed = 5
    worker.call()
    assert next(told, None) is None
    assert worker.owed == 0


@pytest.mark.parametrize("key", [None, "", "  ", "sk-one\nsk-two"])
def test_a_key_that_cannot_be_sent_pauses_the_collection(monkeypatch, key) -> None:
    """Every other call would fail by it, too."""
    monkeypatch.delenv("A_KEY", raising=False)
    if key is not None:
        monkeypatch.setenv("A_KEY", key)
    config = EndpointConfig(
        name="e", base_url="http://h/v1", dialect="chat", model="m", key_env="A_KEY"
    )
    answer = caller.answer_of(config, ModelRequest(model="m", messages=(), max_tokens=1))
    assert answer.error is not None
    assert answer.error.kind in CAMPAIGN
    assert "sk-" not in answer.error.message


def test_calls_that_are_being_claimed_count(monkeypatch) -> None:
    begun: list[int] = []
    go_on = threading.Event()

    def prepare(*_: Any, **__: Any) -> calls.NotNow:
        begun.append(len(begun))
        go_on.wait(10)
        return calls.NotNow.NOTHING_DUE

    monkeypatch.setattr(calls, "prepare", prepare)
    worker = a_worker(monkeypatch)
    threads = [threading.Thread(target=worker.call) for _ in range(MOST + 5)]
    for thread in threads:
        thread.start()
    until(lambda: worker.owed == 5)
    assert len(begun) == MOST
    go_on.set()
    for thread in threads:
        thread.join()
    assert worker.owed == 0
