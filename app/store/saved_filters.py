"""STORE: filters that people gave a name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from app.domain import ids
from app.domain.user import User
from app.store import audit
from app.store.tables import saved_filters, users

_s = saved_filters.c


@dataclass(frozen=True, kw_only=True)
class SavedFilter:
    """A filter with the columns that its author looked at."""

    saved_filter_id: UUID
    name: str
    where_text: str
    columns: list[str]
    author: str
    created_at: datetime


def listed(connection: sa.Connection) -> list[SavedFilter]:
    """All of them, by name."""
    query = (
        sa.select(
            _s.saved_filter_id,
            _s.name,
            _s.where_text,
            _s["columns"].label("columns"),
            sa.func.coalesce(users.c.name, "local").label("author"),
            _s.created_at,
        )
        .select_from(saved_filters.outerjoin(users, users.c.user_id == _s.user_id))
        .order_by(_s.name)
    )
    return [SavedFilter(**row) for row in connection.execute(query).mappings()]


def save(connection: sa.Connection, user: User, *, name: str, where_text: str, columns: Sequence[str]) -> UUID:
    """Store a filter under a new name; ValueError where the name is taken or empty."""
    if not name.strip() or len(name) > 80:
        raise ValueError(f"name: expected 1 to 80 characters, got {name!r}")
    saved_filter_id = ids.new_id()
    new = insert(saved_filters).values(
        saved_filter_id=saved_filter_id,
        name=name.strip(),
        where_text=where_text,
        columns=list(columns),
        user_id=user.user_id,
    )
    if connection.scalar(new.on_conflict_do_nothing().returning(_s.saved_filter_id)) is None:
        raise ValueError(f"name: expected one that no other filter has, got {name.strip()!r}")
    audit.record(connection, user, "filter.save", f"filter {name.strip()}", {"where": where_text})
    return saved_filter_id


def forget(connection: sa.Connection, user: User, saved_filter_id: UUID) -> bool:
    """Delete a filter; whether there was one."""
    gone = sa.delete(saved_filters).where(_s.saved_filter_id == saved_filter_id).returning(_s.name)
    name = connection.scalar(gone)
    if name is not None:
        audit.record(connection, user, "filter.forget", f"filter {name}")
    return name is not None
