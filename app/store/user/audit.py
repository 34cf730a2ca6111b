"""STORE: audit log of changes by users.  Append-only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from app.domain import ids
from app.domain.user import User
from app.store import tables
from app.store.postgres import jsonb

_a = tables.audit_events.c


@dataclass(frozen=True, kw_only=True)
class Event:
    """A change made by a user."""

    audit_event_id: UUID
    user: str | None
    """User's name; None for a change made at the machine's own terminal."""
    action: str
    subject: str
    details: dict[str, Any]
    created_at: datetime


def record(
    connection: sa.Connection,
    user: User | None,
    action: str,
    subject: str,
    details: Mapping[str, object] | None = None,
) -> None:
    """Note, in the transaction of the change itself, that `user` (None: a command line) did it.

    `action` is `<noun>.<verb>` (`token.revoke`), `subject` names the changed object (`user ada`,
    `evaluation <id>`). Details are JSON; no secret belongs there.
    """
    row = {
        "audit_event_id": ids.new_id(),
        "user_id": user.user_id if user else None,
        "action": action,
        "subject": jsonb.plain(subject),
        "details": jsonb.plain(dict(details or {})),
    }
    connection.execute(sa.insert(tables.audit_events).values(row))
