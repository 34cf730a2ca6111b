"""The audit log, for tests."""

from __future__ import annotations

from collections.abc import Sequence

from app.store.audit import Event
from app.store.browse import audit_log, paging
from app.store.database import Connection


def events(connection: Connection) -> Sequence[Event]:
    """The latest events, newest first."""
    return audit_log.page(connection, audit_log.Filter(), paging.Window()).rows
