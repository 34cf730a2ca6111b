"""Threads that listen for others: an unexpected error ends none of them for good."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from celery import Celery

from app import enqueue
from app.store.postgres import change_notifications
from app.store.postgres.database import Database
from app.store.queue import job_notifications, jobs
from app.web import live_updates
from app.web.job_waiter import Watch
from tests.integration import fakes
from tests.waiting import until

HELD_S = 20.0


@pytest.fixture
def job_id(database: Database, broker: Celery) -> UUID:
    return enqueue.enqueue(database, broker, [fakes.request("candidate")])[0]


@contextmanager
def watching(database: Database) -> Iterator[Watch]:
    watch = Watch(database)
    try:
        yield watch
    finally:
        watch.close()


def cancel(database: Database, job_id: UUID) -> None:
    with database.begin() as connection:
        jobs.cancel(connection, job_id)


def notify(database: Database, channel: str, payload: str) -> None:
    with database.begin() as connection:
        connection.execute(sa.select(sa.func.pg_notify(channel, payload)))


def once(failure: Exception, real: Callable[..., Any]) -> Callable[..., Any]:
    """The function, that fails the first time."""
    left = [failure]

    def acts(*arguments: Any, **named: Any) -> Any:
        if left:
            raise left.pop()
        return real(*arguments, **named)

    return acts


def test_a_notice_that_names_no_job_wakes_no_client_and_stops_no_listener(
    database: Database, job_id: UUID
) -> None:
    with watching(database) as watch, ThreadPoolExecutor() as pool:
        held = pool.submit(watch.over, job_id, HELD_S)
        time.sleep(0.5)  # until it listens
        notify(database, job_notifications.CHANNEL, "no id")
        time.sleep(0.5)
        assert not held.done()
        begun = time.monotonic()
        cancel(database, job_id)
        assert held.result()
        assert time.monotonic() - begun < HELD_S / 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_clients_that_wait_are_woken_after_an_unexpected_error(
    database: Database, job_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        job_notifications.Notices,
        "wait",
        once(RuntimeError("unexpected"), job_notifications.Notices.wait),
    )
    with watching(database) as watch, ThreadPoolExecutor() as pool:
        held = pool.submit(watch.over, job_id, HELD_S)
        time.sleep(1.0)
        begun = time.monotonic()
        cancel(database, job_id)
        assert held.result()
        assert time.monotonic() - begun < HELD_S / 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_open_pages_hear_of_changes_after_an_unexpected_error(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = once(RuntimeError("unexpected"), change_notifications.Changes.wait)
    monkeypatch.setattr(change_notifications.Changes, "wait", wait)
    monkeypatch.setattr(live_updates, "BEAT_S", 0.2)
    monkeypatch.setattr(live_updates, "PACE_S", 0.0)
    feed = live_updates.Feed(database)
    events = feed.stream(("jobs",))
    next(events)

    def changed() -> bool:
        notify(database, change_notifications.CHANNEL, "jobs")
        return next(events).startswith("data:")

    until(changed)
    feed.stop()
    events.close()  # type: ignore[attr-defined]
    until(lambda: not any(thread.name == "live" for thread in threading.enumerate()))
