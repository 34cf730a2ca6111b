"""STORE: reading until a moment, however many statements it takes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from psycopg.errors import QueryCanceled
from sqlalchemy.exc import OperationalError


class TimeOverError(Exception):
    """The moment has come before everything was read."""


@contextmanager
def until(connection: sa.Connection, moment_s: float) -> Iterator[None]:
    """Statements of this transaction end at that moment of `time.monotonic` by TimeOverError;
    math.inf: no limit of their own.
    """

    def limit(*_: object) -> None:
        left_ms = 1000 * (moment_s - time.monotonic())
        if left_ms < 1:  # PostgreSQL takes 0 for no limit
            raise TimeOverError
        driver = connection.connection.driver_connection
        assert driver is not None
        driver.execute(f"SET LOCAL statement_timeout = {min(round(left_ms), 1_000_000)}")

    if moment_s == float("inf"):
        yield
        return
    sa.event.listen(connection, "before_cursor_execute", limit)
    try:
        yield
    except OperationalError as error:
        if isinstance(error.orig, QueryCanceled):
            raise TimeOverError from error
        raise
    except QueryCanceled as error:  # a COPY goes past SQLAlchemy
        raise TimeOverError from error
    finally:
        sa.event.remove(connection, "before_cursor_execute", limit)
