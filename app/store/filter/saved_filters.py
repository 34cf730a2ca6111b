"""STORE: views of lists that people gave a name: filter, columns and order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from app.domain import ids
from app.domain.user import User
from app.store.postgres import row_columns
from app.store.tables import saved_filters, users
from app.store.user import audit

_s = saved_filters.c


@dataclass(frozen=True, kw_only=True)
class SavedFilter:
    """A view of a list."""

    saved_filter_id: UUID
    name: str
    page: str
    """Endpoint of the list."""
    query: str
    """Query of its URL."""
    author: str
    created_at: datetime


def listed(connection: sa.Connection, page: str) -> list[SavedFilter]:
    """Views of a list, by name."""
    query = (
        sa.select(*row_columns.of(SavedFilter, saved_filters, author=row_columns.USER))
        .select_from(saved_filters.outerjoin(users, users.c.user_id == _s.user_id))
        .where(_s.page == page)
        .order_by(_s.name)
    )
    return [SavedFilter(**row) for row in connection.execute(query).mappings()]


def save(connection: sa.Connection, user: User, *, name: str, page: str, query: str) -> UUID:
    """Store a view under a new name; ValueError where the name is taken or empty."""
    if not name.strip() or len(name) > 80:
        raise ValueError(f"name: expected 1 to 80 characters, got {name!r}")
    saved_filter_id = ids.new_id()
    new = insert(saved_filters).values(
        saved_filter_id=saved_filter_id,
        name=name.strip(),
        page=page,
        query=query,
        user_id=user.user_id,
    )
    if connection.scalar(new.on_conflict_do_nothing().returning(_s.saved_filter_id)) is None:
        raise ValueError(f"name: expected one that no other view has, got {name.strip()!r}")
    audit.record(
        connection, user, "filter.save", f"view {name.strip()}", {"page": page, "query": query}
    )
    return saved_filter_id


def forget(connection: sa.Connection, user: User, saved_filter_id: UUID) -> str | None:
    """Delete a view; the endpoint of its list, None where there is no such view."""
    gone = (
        sa.delete(saved_filters)
        .where(_s.saved_filter_id == saved_filter_id)
        .returning(_s.name, _s.page)
    )
    found = connection.execute(gone).one_or_none()
    if found is None:
        return None
    audit.record(connection, user, "filter.forget", f"view {found.name}")
    return str(found.page)
