"""STORE: notices of changes for open pages: PostgreSQL's NOTIFY, one listening
connection per web process.

Triggers announce topics (migrations/versions/20261121_rollups.py): `evaluations`,
`trajectories`, `jobs`, `devices`, `exports`,
`export_jobs`, `runs`.  A notice names the topic, not the change: its listener reads again.
"""

from __future__ import annotations

import psycopg

from app.store.postgres.database import (
    CONNECT_TIMEOUT_S,
    Database,
    DatabaseUnavailableError,
    libpq_url,
)

CHANNEL = "assay_live"
TOPICS = ("evaluations", "trajectories", "jobs", "devices", "exports", "export_jobs", "runs")


class Changes:
    """One connection that listens.  Notices sent while it was down are not heard: after
    DatabaseUnavailableError everything may have changed.
    """

    def __init__(self, database: Database) -> None:
        self._dsn = libpq_url(database.url)
        self._connection: psycopg.Connection[tuple[object, ...]] | None = None

    def wait(self, timeout_s: float) -> set[str]:
        """Topics announced within `timeout_s` seconds; returns soon after the first.

        Raises DatabaseUnavailableError."""
        try:
            if self._connection is None:
                self._connection = psycopg.connect(
                    self._dsn, autocommit=True, connect_timeout=CONNECT_TIMEOUT_S
                )
                self._connection.execute(f"LISTEN {CHANNEL}")
            return {
                notice.payload
                for notice in self._connection.notifies(timeout=timeout_s, stop_after=1)
            }
        except psycopg.OperationalError as error:
            self.close()
            raise DatabaseUnavailableError(f"PostgreSQL stopped notifying: {error}") from error

    def close(self) -> None:
        """Stop listening."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
