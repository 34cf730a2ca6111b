"""The worker of an endpoint keeps as many calls in flight as it may."""

from __future__ import annotations

import threading
from typing import Any

from app.collect import calls
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
    settings = Settings(database_url="postgresql+psycopg://u@h/d", broker_url="redis://h", calls=MOST)
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
