"""A restart of PostgreSQL in the middle of a long wait is sat out; a server that was never reached
is an error at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from app import broker
from app.cli import services
from app.client import database_transport, outage
from app.client.database_transport import Local
from app.client.outage import Outage
from app.settings import Settings
from app.store.evaluation import evaluations
from app.store.postgres.database import DatabaseUnavailableError

SETTINGS = Settings(database_url="postgresql+psycopg://a@h/a", broker_url="redis://h")


def away(times: float) -> Callable[[], None]:
    """A function that fails so many times."""
    left = [times]

    def call() -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise DatabaseUnavailableError("the database system is starting up")

    return call


@pytest.fixture
def transport(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], Local]:
    monkeypatch.setattr(database_transport, "RETRY_S", 0.0)
    monkeypatch.setattr(evaluations, "job_records", lambda *_: {})

    def made(times: float) -> Local:
        fails = away(times)

        @contextmanager
        def read() -> Iterator[None]:
            fails()
            yield

        local = Local(SETTINGS)
        local.__dict__["database"] = SimpleNamespace(read=read, dispose=lambda: None)
        return local

    return made


def test_results_wait_for_a_server_that_was_reached(transport: Callable[[float], Local]) -> None:
    local = transport(2)
    local._outage.end()
    assert local._records([]) == {}


def test_results_of_a_server_that_was_never_reached_are_an_error(
    transport: Callable[[float], Local],
) -> None:
    with pytest.raises(DatabaseUnavailableError):
        transport(1)._records([])


def test_results_of_a_server_that_stays_away_are_an_error(
    transport: Callable[[float], Local],
) -> None:
    local = transport(math.inf)
    local._outage = Outage(patience_s=0.01)
    local._outage.end()
    with pytest.raises(DatabaseUnavailableError):
        local._records([])


def test_a_check_of_the_worker_sits_the_restart_out(monkeypatch: pytest.MonkeyPatch) -> None:
    fails = away(0)

    def online(*_: Any) -> list[str]:
        fails()
        return ["a device"]

    monkeypatch.setattr(services, "online", online)
    monkeypatch.setattr(broker, "depth", lambda *_: 0)
    worker = services.Worker(SETTINGS, SimpleNamespace(broker=None), "h200")  # type: ignore[arg-type]
    worker.check()
    fails = away(1)
    worker.check()
    worker._database_outage = Outage(patience_s=-1.0)
    worker._database_outage.end()
    fails = away(1)
    with pytest.raises(DatabaseUnavailableError):
        worker.check()


def test_an_outage_begins_with_the_first_failed_call(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    monkeypatch.setattr(outage, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    server = Outage(patience_s=60.0)
    server.end()
    now_s[0] = 1_000.0  # without a call in between
    assert server.may_pass()
    now_s[0] = 1_060.0
    assert server.may_pass()
    now_s[0] = 1_061.0
    assert not server.may_pass()
    server.end()
    assert server.may_pass()
