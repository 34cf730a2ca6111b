"""STORE: one engine per process, opened when first used; connections are borrowed
for one transaction.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, TypeAlias

import psycopg
import sqlalchemy as sa
from sqlalchemy.exc import (
    ArgumentError,
    InterfaceError,
    InternalError,
    InvalidatePoolError,
    OperationalError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from app.domain.request import RequestError, ServiceUnavailableError

Connection: TypeAlias = sa.Connection
"""A connection, for modules that pass one on and contain no SQL."""

DRIVER = "postgresql+psycopg"
APPLICATION = "assay"
"""Name of connections, as PostgreSQL lists them."""
CONNECT_TIMEOUT_S = 5
"""Longest wait for one connection: a database that is down is an error soon, not a hang."""
_SILENCE = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
"""Keep-alive of a TCP connection, in s, s, probes and ms: a pulled cable is noticed within half a
minute (Linux would try for a quarter of an hour), long before a caller waits for it.
"""


WORKER_IDLE_S = 30.0
"""Longest idle time inside a transaction of a worker, in seconds: a stopped worker (SIGSTOP, a
paused machine) keeps its locks no longer.
"""
BY_INDEX = {"enable_seqscan": "off", "random_page_cost": "1.1"}
"""Planner settings of workers: their statements look up few rows by id.  A plan is kept
as long as a connection, and one made while a table was small would go on reading it
whole until the table is analysed.
"""
_IDLE = "25P03"
"""SQLSTATE of a transaction that the server has ended for that."""
_READ_ONLY = "25006"
"""SQLSTATE of a write to a server that takes none now: a standby, after a failover
or before its end.
"""
_DISK_FULL = "53100"
_BEYOND_LIMITS = "54000"
"""SQLSTATE of a value that PostgreSQL never stores, because it is too long for an index."""

TRUSTED_S = 1.0
"""A connection that was in use less than this long ago is looked at before it is used, in seconds:
an end that the server has sent is seen without a round trip.  Any other one is asked, too: a proxy
or firewall between may have dropped it silently.
"""


def libpq_url(url: sa.URL) -> str:
    """The URL with its password as libpq reads it, which refuses a space, as SQLAlchemy
    writes it in a password, and takes a plus sign for itself, as SQLAlchemy writes a
    space in the folder of a socket.
    """
    address, mark, query = (
        url.set(drivername="postgresql").render_as_string(hide_password=False).partition("?")
    )
    return address.replace(" ", "%20") + mark + query.replace("+", "%20")


class DatabaseUnavailableError(ServiceUnavailableError):
    """PostgreSQL cannot serve now (down, restarting, refusing, deadlocked); the same
    call may work later.
    """


class DiskFullError(DatabaseUnavailableError):
    """PostgreSQL's disk is full; stored data are safe, and the same call works once
    there is room.
    """


class ReadOnlyError(DatabaseUnavailableError):
    """PostgreSQL takes no writes now, as a standby does; stored data can be read."""


class TooLongError(RequestError):
    """A value that is too long to be stored: the same call never works."""


class Database:
    """The way to PostgreSQL: `begin()` for writing, `snapshot()` for long consistent reads.

    Safe for threads.  Not for sharing over a fork: a child process makes its own."""

    def __init__(
        self, url: str, *, connections: int | None = None, worker_idle_s: float | None = None
    ) -> None:
        """`connections`: most connections, which stay open; by default 5, and 10 more on demand.
        `worker_idle_s`: limit for short transactions of a worker; the server ends a transaction
        that is idle for longer, and releases its locks.
        """
        try:
            self.url = sa.make_url(url)
        except ArgumentError as error:  # which repeats the text, password and all
            raise ValueError(f"database_url: expected {DRIVER}://…, got no URL") from error
        self._arguments: dict[str, Any] = {
            "connect_timeout": CONNECT_TIMEOUT_S,
            "application_name": APPLICATION,
            **_SILENCE,
        }
        if worker_idle_s is not None:
            options = {
                "idle_in_transaction_session_timeout": f"{round(1e3 * worker_idle_s)}",
                **BY_INDEX,
            }
            self._arguments["options"] = " ".join(
                f"-c {name}={value}" for name, value in options.items()
            )
        self._pool = {"pool_size": 5, "max_overflow": 10}
        if connections is not None:
            self._pool = {"pool_size": connections, "max_overflow": 0}
        if self.url.drivername != DRIVER:
            raise ValueError(f"database_url: expected {DRIVER}://…, got {self.url.drivername}://…")

    @cached_property
    def engine(self) -> sa.Engine:
        """Opened when first used, so that importing a worker or the web opens nothing."""
        engine = sa.create_engine(
            self.url,
            pool_use_lifo=True,  # the one that was used last has its statements prepared
            **self._pool,
            json_serializer=partial(json.dumps, allow_nan=False),
            connect_args=self._arguments,
        )
        sa.event.listen(engine, "connect", _note_use)
        sa.event.listen(engine, "checkin", _note_use)
        sa.event.listen(engine, "checkout", partial(_check, engine.dialect))
        return engine

    @contextmanager
    def begin(self) -> Iterator[sa.Connection]:
        """A connection in a transaction, committed at the end, rolled back by an exception.

        Raises DatabaseUnavailableError where the server cannot be reached or breaks off, and
        TooLongError for a value that an index cannot hold.
        """
        with self.translated(), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A connection on which every statement stands for itself: for a few short
        reads, two round trips cheaper.
        """
        with self.translated(), self.engine.connect() as connection:
            yield connection.execution_options(isolation_level="AUTOCOMMIT")

    @contextmanager
    def snapshot(self) -> Iterator[sa.Connection]:
        """A read-only connection that sees the database as it was at its first statement."""
        with self.translated(), self.engine.connect() as connection:
            connection.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
            with connection.begin():
                yield connection

    def dispose(self) -> None:
        """Close every connection."""
        if "engine" in self.__dict__:
            self.engine.dispose()

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Errors of the driver as this module's, one line each."""
        try:
            yield
        except PoolTimeoutError as error:
            raise DatabaseUnavailableError(
                f"every connection to PostgreSQL is in use: {error}"
            ) from error
        except (OperationalError, InterfaceError) as error:
            state = getattr(error.orig, "sqlstate", None) or ""
            if state == _BEYOND_LIMITS:
                raise TooLongError(
                    f"expected names that an index can hold, got one that is too long: {error.orig}"
                ) from error
            where = self.url.render_as_string(hide_password=True)
            kind = DiskFullError if state == _DISK_FULL else DatabaseUnavailableError
            raise kind(f"PostgreSQL at {where}: {str(error.orig).strip()}") from error
        except psycopg.OperationalError as error:  # a COPY goes past SQLAlchemy
            where = self.url.render_as_string(hide_password=True)
            raise DatabaseUnavailableError(f"PostgreSQL at {where}: {error}") from error
        except InternalError as error:
            state = getattr(error.orig, "sqlstate", None)
            if state == _READ_ONLY:
                raise ReadOnlyError(f"PostgreSQL takes no writes now: {error.orig}") from error
            if state != _IDLE:
                raise
            raise DatabaseUnavailableError(
                f"this process was stopped in a transaction: {error.orig}"
            ) from error


def _note_use(_: object, record: sa.pool.ConnectionPoolEntry) -> None:
    record.info["used_at"] = time.monotonic()


def _check(
    dialect: sa.Dialect, connection: Any, record: sa.pool.ConnectionPoolEntry, _: object
) -> None:
    """Raise InvalidatePoolError, for which the pool opens another connection, where
    this one has ended.
    """
    try:
        for _ in range(
            2
        ):  # without waiting: the last words of a server that has ended it, then the end
            connection.pgconn.consume_input()
        if time.monotonic() - record.info["used_at"] > TRUSTED_S:
            dialect.do_ping(connection)
    except dialect.loaded_dbapi.Error as error:
        raise InvalidatePoolError("the connection has ended") from error
