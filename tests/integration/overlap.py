"""Transactions that overlap: one goes on in another thread until it waits for a lock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import sqlalchemy as sa

from app.store.postgres.database import Database

T = TypeVar("T")
MOST_S = 30.0
"""Longest wait for a transaction, in seconds."""
_WAITING = sa.text(
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


@contextmanager
def started(function: Callable[[], T]) -> Iterator[Future[T]]:
    """The function, under way in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(function)


def await_a_waiting_one(database: Database, number: int = 1) -> None:
    """Return once so many transactions of the database wait for a lock of another."""
    ends_s = time.monotonic() + MOST_S
    while time.monotonic() < ends_s:
        with database.read() as connection:
            if connection.execute(_WAITING).scalar_one() >= number:
                return
        time.sleep(0.02)
    raise AssertionError(f"expected {number} transactions that wait for another one")


def waits_or_ends(database: Database, running: Future[T]) -> None:
    """Return once the transaction waits for a lock of another, or is over."""
    ends_s = time.monotonic() + MOST_S
    while time.monotonic() < ends_s and not running.done():
        with database.read() as connection:
            if connection.execute(_WAITING).scalar_one():
                return
        time.sleep(0.02)
