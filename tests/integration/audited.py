"""The audit log, for tests."""

from __future__ import annotations

from collections.abc import Sequence

from app.store.browse import audit_log, paging
from app.store.postgres.database import Connection
from app.store.user.audit import Event


def events(connection: Connection) -> Sequence[Event]:
    """The latest events, newest first."""
    return audit_log.page(connection, audit_log.Filter(), paging.Window()).rows
