"""STORE: wake-up of processes that wait for a job when it is over, by PostgreSQL's NOTIFY."""

from __future__ import annotations

import re
from types import TracebackType
from uuid import UUID

import psycopg
import sqlalchemy as sa

from app.store.postgres.database import (
    CONNECT_TIMEOUT_S,
    Database,
    DatabaseUnavailableError,
    libpq_url,
)

CHANNEL = "assay_jobs"
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def announcement(job_id: sa.ColumnElement[UUID]) -> sa.ColumnElement[None]:
    """Expression that tells listeners, once its transaction commits, that the job
    has come to its end.
    """
    return sa.func.pg_notify(CHANNEL, sa.cast(job_id, sa.Text))


def announce(connection: sa.Connection, job_id: UUID) -> None:
    """Tell listeners, once this transaction commits, that the job has come to its end."""
    connection.execute(sa.select(announcement(sa.literal(job_id))))


class Notices:
    """One connection that listens.  Opened again after a break; notices sent meanwhile are not
    heard, so waiting callers also poll from time to time.
    """

    def __init__(self, database: Database) -> None:
        self._dsn = libpq_url(database.url)
        self._connection: psycopg.Connection[tuple[object, ...]] | None = None
        self._resting = False

    def __enter__(self) -> Notices:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def wait(self, timeout_s: float) -> set[UUID]:
        """Jobs announced as over within `timeout_s` seconds: returns with the first notice.  One
        that names no job, as any role of the database may send, is passed over.

        Raises DatabaseUnavailableError.
        """
        try:
            heard = self._listening().notifies(timeout=timeout_s, stop_after=1)
            return {UUID(notice.payload) for notice in heard if _ID.fullmatch(notice.payload)}
        except psycopg.OperationalError as error:
            self.close()
            raise DatabaseUnavailableError(f"PostgreSQL stopped notifying: {error}") from error

    def listen(self) -> None:
        """Connect now, so that nothing announced from here on is missed."""
        try:
            self._listening()
        except psycopg.OperationalError as error:
            self.close()
            raise DatabaseUnavailableError(f"PostgreSQL refuses to notify: {error}") from error

    def rest(self) -> None:
        """Stop listening and keep the connection: PostgreSQL would wait for one that
        listens and does not read.
        """
        try:
            if self._connection is not None:
                self._connection.execute("UNLISTEN *")
                self._resting = True
        except psycopg.OperationalError:
            self.close()

    def close(self) -> None:
        """Stop listening."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _listening(self) -> psycopg.Connection[tuple[object, ...]]:
        if self._connection is not None and self._resting:
            try:
                self._connection.execute(f"LISTEN {CHANNEL}")
            except psycopg.OperationalError:  # it has ended meanwhile
                self.close()
        if self._connection is None:
            connection = psycopg.connect(
                self._dsn, autocommit=True, connect_timeout=CONNECT_TIMEOUT_S
            )
            connection.execute(f"LISTEN {CHANNEL}")
            self._connection = connection
        self._resting = False
        return self._connection
