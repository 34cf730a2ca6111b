"""BROWSE: whether the database stores anything, for the health of this server."""

from __future__ import annotations

import threading
import time

from app.store.postgres import write_probe
from app.store.postgres.database import Database

PROBED_S = 10.0
"""Seconds for which the outcome of a write to the database is used again."""


class Writes:
    """Test whether the database stores anything, repeated every PROBED_S at most."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._turn = threading.Lock()
        self._tried_at = -PROBED_S
        self._refusal: str | None = None

    def refusal(self) -> str | None:
        """Reason for which it stores nothing.  Raises DatabaseUnavailableError."""
        with self._turn:
            if time.monotonic() - self._tried_at >= PROBED_S:
                self._refusal = write_probe.refusal(self._database)
                self._tried_at = time.monotonic()
            return self._refusal
